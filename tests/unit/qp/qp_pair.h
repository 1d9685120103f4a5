#pragma once

// Two queue pairs connected to each other, each with its own rings, completion queues and memory,
// in one thread and in virtual time. The test passes each frame on, so it can inspect, lose or
// change it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi/completion.h"
#include "abi/work_request.h"
#include "apps/replay/queues.h"
#include "base/unique_fd.h"
#include "dataplane/qp/qp.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"
#include "tests/qp/rig.h"

namespace uroce::test {

// A frame with its bytes.
struct HeapFrame {
  HeapFrame() : bytes(4'300) {
    frame.data = bytes.data();
    frame.capacity = static_cast<std::uint32_t>(bytes.size());
  }
  HeapFrame(const HeapFrame& other) : HeapFrame() { copy(other.frame); }
  HeapFrame& operator=(const HeapFrame&) = delete;
  void copy(const Frame& other);

  std::vector<std::byte> bytes;
  Frame frame;
};

// What differs between tests.
struct EndpointConfig {
  std::uint32_t qpn = 17;
  QpType type = QpType::kRc;
  QueuesConfig queues{};
  std::size_t memory_bytes = 1U << 20U;
  std::uint32_t access =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  bool signal_all = false;
  std::uint64_t user = 0;
  // Its memory is accessed through /proc/PID/mem: by a helper if its worker has PagingQueues.
  bool slow_way = false;
  bool shares_network = false;
  bool measures_latency = true;
  const CongestionSettings* congestion = &kDefaultCongestion;
  KeyTable* keys = nullptr;  // the daemon's, if other queue pairs share it
};

// One end: a queue pair with everything that its program and its card have for it.
class Endpoint : public Queues {
 public:
  explicit Endpoint(const EndpointConfig& config);

  // The program's side.
  std::vector<std::byte> memory;
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
  }
  [[nodiscard]] std::uint32_t key() const { return key_; }
  [[nodiscard]] abi::Sge sge(std::size_t offset, std::size_t length) const {
    return {address(offset), static_cast<std::uint32_t>(length), key_};
  }

  // The card's side.
  [[nodiscard]] Qp& qp() { return *qp_; }
  [[nodiscard]] KeyTable& keys() { return *keys_; }
  // One more key for the same memory, for local access.
  [[nodiscard]] std::uint32_t add_region();
  // The helper for its memory; nullptr unless that is reached the slow way.
  [[nodiscard]] ProcMemThread* program() { return program_.get(); }
  Recovery recovery = Recovery::kSelective;
  bool may_buffer = false;      // the test buffers frames that come after a missing one
  bool again = false;           // the next frame delivered was buffered
  Duration absent = 0;          // time in which its worker couldn't run
  bool many_doorbells = false;  // many queue pairs of its worker ring
  Turn turn(Time now, TxBatch& tx) {
    Turn lent{now, tx, *keys_, events, dirty_};
    lent.recovery = recovery;
    lent.may_buffer = may_buffer;
    lent.again = again;
    lent.absent = absent;
    lent.many_doorbells = many_doorbells;
    return lent;
  }
  void modify(const QpAttributes& attributes, std::uint32_t mask, Time now = 0);
  void to_error(Time now = 0);
  void ring(Time now);

  EventLog events;
  [[nodiscard]] bool announced(AsyncEvent event) const;

 private:
  [[nodiscard]] Region::Config whole_memory(std::uint32_t access);

  std::shared_ptr<ProcMemThread> program_;
  Quiescence quiescence_;
  KeyTable own_keys_;
  KeyTable* keys_;
  std::uint32_t key_ = 0;
  std::vector<CompletionQueue*> dirty_;
  std::unique_ptr<Qp> qp_;
};

// The attributes that both ends agree on.
struct PairConfig {
  EndpointConfig a{};
  EndpointConfig b{.qpn = 18};
  std::uint32_t path_mtu = 1024;
  std::uint32_t psn_a = 100;  // the first PSN that a sends
  std::uint32_t psn_b = 200;
  std::uint8_t max_rd_atomic = 4;
  std::uint8_t timeout = 14;
  std::uint8_t retry_cnt = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint16_t vlan = 0;  // the tag of all frames
  // Both ends belong to one daemon, on a port with this address.
  std::optional<EtherAddress> shared_mac{};
};

class QpPair {
 public:
  explicit QpPair(const PairConfig& config = {});

  Endpoint a;
  Endpoint b;
  Time now = 1'000'000;

  using Frames = std::vector<std::unique_ptr<HeapFrame>>;
  // The frames that `from` sends now, at most `frames_max`.
  [[nodiscard]] Frames transmit(Endpoint& from, std::size_t frames_max = TxBatch::kFramesMax);
  // Parses the frame as if received from the wire, and delivers it to `to`; `step` returns whether
  // it was finished.
  Drop deliver(Endpoint& to, HeapFrame& frame);
  Step step = Step::kDone;
  // Builds a frame as if from the peer of `to`: for answers that no honest peer sends.
  [[nodiscard]] std::unique_ptr<HeapFrame> forge(Endpoint& to, const Headers& headers,
                                                 std::span<const std::byte> payload = {}) const;

  // Lets both ends send and receive until neither has anything to send. `lost` is asked about each
  // frame.
  using Filter = std::function<bool(const Packet& packet, bool to_b)>;
  void exchange(const Filter& lost = {});
  // Delivers a frame as deliver() does, and buffers it if it is out of order.
  void give(Endpoint& to, std::unique_ptr<HeapFrame> frame);
  // Discards the frames buffered for `end`, as if there were no room for them any more.
  void drop_out_of_order(Endpoint& end);
  // As exchange(), and time advances from deadline to deadline while there are any, at most
  // `rounds` times.
  void run(const Filter& lost = {}, int rounds = 64);
  // Advances time to the next deadline, and serves it. False if there is none.
  bool next_deadline();

  [[nodiscard]] QpAttributes attributes(bool of_a) const;

  // RESET to RTS.
  void connect(Endpoint& end);

 private:
  using OutOfOrderFrames = std::map<std::pair<Endpoint*, bool>, Frames>;  // of each role
  OutOfOrderFrames out_of_order_;
  PairConfig config_;
};

// Work requests.
[[nodiscard]] abi::SendWr send_wr(std::uint64_t wr_id, abi::WrOpcode opcode,
                                  std::uint8_t flags = abi::kSignaled);
[[nodiscard]] abi::SendWr rdma_wr(std::uint64_t wr_id, abi::WrOpcode opcode, const Endpoint& remote,
                                  std::size_t offset, std::uint8_t flags = abi::kSignaled);

void fill_pattern(std::span<std::byte> bytes, std::uint32_t seed);

}  // namespace uroce::test
