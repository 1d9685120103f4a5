#pragma once

// One direction of a connection: the program at `from` posts random work towards `to`, where
// another program posts receives. It knows the expected result of each request, and checks it:
//
//   * each request completes once and in order, with a completion if it is signalled or failed;
//   * a READ returns the contents, an atomic the value before it, and is applied once; an ATOMIC
//     WRITE is applied once, a FLUSH succeeds;
//   * each message arrives once and in order, in the receive posted for it, with its immediate;
//   * memory has the expected contents everywhere (Arena::compare).
//
// Requests are applied to the shadows when they are posted, since the peer executes them in order.
// A later WRITE may overtake a READ, so one that overlaps an outstanding READ is fenced.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace uroce::sim {

// A deliberate failure, once per connection.
enum class Mishap : std::uint8_t {
  kNone,
  kBadRkey,      // a request names a key that doesn't exist
  kBadRange,     // a request goes beyond the region
  kBadLkey,      // its own memory isn't registered
  kBadOpcode,    // an opcode that RC doesn't support
  kTooLong,      // a message longer than the receive
  kNoReceive,    // no receives are posted, and rnr_retry is exhausted
  kSenderError,  // control puts the sender into ERR
  kPeerError,    // control puts the peer into ERR: it becomes silent
};

struct FlowConfig {
  std::uint32_t requests = 0;  // in total
  std::uint32_t message_bytes_max = 0;
  std::uint32_t sge_max = 1;
  std::uint32_t inline_max = 0;
  std::uint32_t send_entries = 1;
  std::uint32_t recv_entries = 1;
  bool signal_all = false;
  double signaled = 1;
  double receives_late = 0;  // probability of not posting receives in a turn
  Mishap mishap = Mishap::kNone;
  std::uint32_t mishap_at = 0;  // the request that fails
  // The posted work comes from this seed alone, whatever the timing. 0: from the world's.
  std::uint64_t content_seed = 0;
};

// A counter to which all flows into a node add.
struct SharedCounter {
  std::size_t offset = 0;
  std::vector<std::uint64_t> originals;  // of additions that completed
  bool exact = true;                     // no addition failed half way
};

class Flow {
 public:
  Flow(const FlowConfig& config, Random& random, Node& from, End& from_end, Node& to, End& to_end,
       SharedCounter& shared);

  // The programs act, or not.
  void act(Time now);
  // Processes completions; empty, or the error.
  [[nodiscard]] std::string check();

  // Everything was posted; everything has completed.
  [[nodiscard]] bool posted() const { return next_ == config_.requests || broken(); }
  [[nodiscard]] bool finished() const;
  [[nodiscard]] std::string describe() const;
  // Whether a request has failed.
  [[nodiscard]] bool broken() const { return failed_; }
  // A failure of the other direction of the connection, or of the network, may end this one as
  // well.
  void may_break() { may_break_ = true; }
  [[nodiscard]] std::uint32_t requests_posted() const { return next_; }
  // The completions that the programs got, in order.
  [[nodiscard]] const std::vector<abi::Cqe>& sends_reported() const { return sends_reported_; }
  [[nodiscard]] const std::vector<abi::Cqe>& receives_reported() const {
    return receives_reported_;
  }
  // Called when all flows have finished.
  [[nodiscard]] std::string check_end();

  // An upper bound on the memory that it needs at each of its nodes.
  [[nodiscard]] static std::size_t arena_bytes(const FlowConfig& config);

 private:
  struct Request {
    std::uint64_t id = 0;
    abi::WrOpcode opcode = abi::WrOpcode::kRdmaWrite;
    bool signaled = false;
    bool shared = false;  // an addition to the shared counter
    bool spoilt = false;  // must fail, with one of these
    abi::WcStatus status = abi::WcStatus::kSuccess;
    std::vector<abi::Sge> sges{};
    std::size_t remote = 0;  // offset in the peer's arena
    std::uint32_t length = 0;
    std::vector<std::byte> answer{};  // expected, of READs and atomics
  };
  struct Message {
    std::vector<std::byte> bytes{};  // of SENDs
    std::uint32_t length = 0;
    std::uint32_t immediate = 0;
    bool has_immediate = false;
    bool writes = false;  // WRITE with immediate
    bool too_long = false;
  };
  struct Receive {
    std::uint64_t id = 0;
    std::vector<abi::Sge> sges{};
  };

  // flow_post.cc
  void post_send(Time now);
  void post_receive();
  void make(Request* request, abi::SendWr* wr);
  void make_write(Request* request, abi::SendWr* wr);
  void make_send(Request* request, abi::SendWr* wr);
  void make_read(Request* request, abi::SendWr* wr);
  void make_atomic(Request* request, abi::SendWr* wr);
  void make_atomic_write(Request* request, abi::SendWr* wr);
  void make_flush(Request* request, abi::SendWr* wr);
  void spoil(Request* request, abi::SendWr* wr);
  void take_local(Request* request, std::uint32_t length);
  [[nodiscard]] std::vector<std::byte> fill_local(const Request& request);
  [[nodiscard]] std::vector<abi::Sge> split(std::uint64_t address, std::uint32_t length,
                                            std::uint32_t key, Random& random) const;
  [[nodiscard]] std::uint32_t random_length();
  [[nodiscard]] bool read_under_way(std::size_t offset, std::uint32_t length) const;
  void strike(Time now);
  [[nodiscard]] bool spoils_requests() const;
  [[nodiscard]] std::uint64_t beyond(std::uint32_t length) const;
  [[nodiscard]] static bool message_of(const Request& request);

  // flow_check.cc
  [[nodiscard]] std::string check_send(const Request& request, const std::optional<abi::Cqe>& cqe);
  [[nodiscard]] std::string check_failure(const Request& request, const abi::Cqe& cqe);
  [[nodiscard]] std::string check_answer(const Request& request);
  [[nodiscard]] std::string check_receive(const abi::Cqe& cqe);
  [[nodiscard]] std::string check_message(const Receive& receive, const abi::Cqe& cqe);
  void give_up_on(const Request& request);

  FlowConfig config_;
  Random own_sends_;
  Random own_receives_;
  Random& chances_;    // timing
  Random& random_;     // requests
  Random& receiving_;  // receives posted for them
  Node& from_;
  End& from_end_;
  Node& to_;
  End& to_end_;
  SharedCounter& shared_;

  std::size_t local_;     // send_entries slots of message_bytes_max at `from`
  std::size_t receives_;  // recv_entries slots at `to`
  std::size_t zone_;      // the range at `to` that `from` reads and writes
  std::size_t counters_;  // for its atomics

  std::uint32_t next_ = 0;  // requests posted
  std::uint32_t receives_posted_ = 0;
  bool failed_ = false;
  bool may_break_ = false;
  bool peer_failed_ = false;  // the peer's receives are flushed
  std::vector<abi::Cqe> sends_reported_;
  std::vector<abi::Cqe> receives_reported_;
  std::deque<Request> requests_;  // posted, not yet completed
  std::deque<Message> messages_;  // posted, not yet received
  std::deque<Receive> posted_receives_;
};

}  // namespace uroce::sim
