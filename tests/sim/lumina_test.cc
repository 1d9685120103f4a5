// Lumina's matrix (SIGCOMM'23): one packet in a message of eight meets one event, and the counters
// of both ends must show exactly that. Two nodes on the in-memory link, virtual time.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "dataplane/port/link_port.h"
#include "tests/sim/node.h"

namespace uroce::sim {
namespace {

using abi::WrOpcode;

constexpr std::uint32_t kMtu = 1'024;
constexpr std::uint32_t kBytes = 8 * kMtu;
constexpr Duration kTurn = kNanosecondsPerMicrosecond;
constexpr Duration kRunMax = kNanosecondsPerSecond;

// The counters: at the requester (asker) and at the responder (answerer).
struct Counts {
  std::uint64_t packet_seq_err = 0, implied_nak_seq_err = 0, local_ack_timeout_err = 0;
  std::uint64_t out_of_sequence = 0, duplicate_request = 0;
  std::uint64_t asker_marked = 0, asker_notified = 0, asker_heeded = 0;
  std::uint64_t answerer_marked = 0, answerer_notified = 0, answerer_heeded = 0;
  std::uint64_t asker_bad_icrc = 0, answerer_bad_icrc = 0;
  bool resends = false;
  bool operator==(const Counts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << "packet_seq_err " << c.packet_seq_err << ", implied_nak_seq_err "
             << c.implied_nak_seq_err << ", local_ack_timeout_err " << c.local_ack_timeout_err
             << ", out_of_sequence " << c.out_of_sequence << ", duplicate_request "
             << c.duplicate_request << "; asker: marked " << c.asker_marked << ", sent "
             << c.asker_notified << ", heeded " << c.asker_heeded << ", bad ICRC "
             << c.asker_bad_icrc << "; answerer: marked " << c.answerer_marked << ", sent "
             << c.answerer_notified << ", heeded " << c.answerer_heeded << ", bad ICRC "
             << c.answerer_bad_icrc << (c.resends ? "; resends" : "");
}

struct Row {
  const char* name;
  WrOpcode opcode;
  std::vector<const char*> events;
  Counts counts;
};

class Exchange {
 public:
  explicit Exchange(const Row& row) : row_(row) {
    Faults faults;
    for (const char* event : row.events) {
      faults.events.push_back(parse_fault_event(event).value());
    }
    auto [left, right] = make_link({});
    constexpr std::size_t kMemory = kBytes + Arena::kPage;
    a_ = std::make_unique<Node>(std::move(left), faults, "10.0.0.1", kMemory);
    b_ = std::make_unique<Node>(std::move(right), Faults{}, "10.0.0.2", kMemory);
    a_->share_network(kDefaultCongestion);
    b_->share_network(kDefaultCongestion);
    a_end_ = &a_->add_end(17, {}, true);
    b_end_ = &b_->add_end(117, {}, true);
    connect();
  }

  // Whether the message arrived.
  bool run() {
    const abi::Sge receive{b_->arena.address(0), kBytes, b_->key};
    b_end_->queues.post_recv(1, {&receive, 1});
    std::fill_n(source().memory.begin(), kBytes, std::byte{0x5A});
    abi::SendWr wr{};
    wr.opcode = row_.opcode;
    wr.flags = abi::kSignaled;
    wr.remote_address = b_->arena.address(0);
    wr.rkey = b_->key;
    const abi::Sge sge{a_->arena.address(0), kBytes, a_->key};
    a_end_->queues.post_send(wr, {&sge, 1});
    a_->ring(*a_end_);
    bool done = false;
    // Goes on for a while, for what is still in flight.
    for (Time end = kRunMax; now_ < end; now_ += kTurn) {
      a_->worker->poll(now_);
      b_->worker->poll(now_);
      if (const auto cqe = a_end_->queues.poll_send()) {
        done = cqe->status == abi::WcStatus::kSuccess;
        end = now_ + kNanosecondsPerMillisecond;
      }
    }
    Arena& target = row_.opcode == WrOpcode::kRdmaRead ? a_->arena : b_->arena;
    return done && std::all_of(target.memory.begin(), target.memory.begin() + kBytes,
                               [](std::byte byte) { return byte == std::byte{0x5A}; });
  }

  [[nodiscard]] Counts counts() const {
    const RoceCounters& a = a_end_->qp.counters();
    const RoceCounters& b = b_end_->qp.counters();
    const auto icrc = static_cast<std::size_t>(Drop::kBadIcrc);
    return {.packet_seq_err = a.packet_seq_err,
            .implied_nak_seq_err = a.implied_nak_seq_err,
            .local_ack_timeout_err = a.local_ack_timeout_err,
            .out_of_sequence = b.out_of_sequence,
            .duplicate_request = b.duplicate_request,
            .asker_marked = a.np_ecn_marked_roce_packets,
            .asker_notified = a.np_cnp_sent,
            .asker_heeded = a.rp_cnp_handled,
            .answerer_marked = b.np_ecn_marked_roce_packets,
            .answerer_notified = b.np_cnp_sent,
            .answerer_heeded = b.rp_cnp_handled,
            .asker_bad_icrc = a_->worker->counters().drops[icrc],
            .answerer_bad_icrc = b_->worker->counters().drops[icrc],
            .resends = a.requests_resent != 0};
  }

 private:
  Arena& source() { return row_.opcode == WrOpcode::kRdmaRead ? b_->arena : a_->arena; }

  void connect() {
    QpAttributes attributes;
    attributes.path_mtu = kMtu;
    attributes.access = kAccessRemoteWrite | kAccessRemoteRead;
    attributes.max_rd_atomic = 4;
    attributes.max_dest_rd_atomic = 4;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    sim::connect(*a_, *a_end_, attributes, *b_, *b_end_, attributes, now_);
  }

  Row row_;
  Time now_ = kNanosecondsPerMillisecond;
  std::unique_ptr<Node> a_, b_;
  End* a_end_ = nullptr;
  End* b_end_ = nullptr;
};

class Lumina : public testing::TestWithParam<Row> {};

TEST_P(Lumina, CountsExactlyWhatHappened) {
  Exchange exchange(GetParam());
  EXPECT_TRUE(exchange.run()) << "the message arrives in any case";
  EXPECT_EQ(exchange.counts(), GetParam().counts);
}

std::vector<Row> rows() {
  std::vector<Row> all;
  const Counts gap{.packet_seq_err = 1, .out_of_sequence = 1, .resends = true};
  // The next packet was buffered, and the late one arrived before a NAK was sent.
  const Counts closed{.out_of_sequence = 1};
  Counts corrupted = gap;
  corrupted.answerer_bad_icrc = 1;
  const Counts told{.asker_heeded = 1, .answerer_marked = 1, .answerer_notified = 1};
  Counts told_once = told;
  told_once.answerer_marked = 2;
  for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kRdmaWrite}) {
    all.push_back({"Nothing", opcode, {}, {}});
    all.push_back({"Drop", opcode, {"qp:0/psn:4:drop"}, gap});
    all.push_back({"Late", opcode, {"qp:0/psn:4:late"}, closed});
    all.push_back({"Corrupt", opcode, {"qpn:117/psn:4:corrupt"}, corrupted});
    all.push_back({"Duplicate", opcode, {"qp:0/psn:4:dup"}, {.duplicate_request = 1}});
    all.push_back({"Mark", opcode, {"qp:0/psn:4:ce"}, told});
    all.push_back({"MarkTwice", opcode, {"qp:0/psn:2:ce", "qp:0/psn:5:ce"}, told_once});
  }
  const WrOpcode read = WrOpcode::kRdmaRead;
  const Counts hole{.implied_nak_seq_err = 1, .duplicate_request = 1, .resends = true};
  Counts broken = hole;
  broken.asker_bad_icrc = 1;
  all.push_back({"Nothing", read, {}, {}});
  all.push_back({"ResponseDrop", read, {"qp:0/response/psn:4:drop"}, hole});
  all.push_back({"ResponseCorrupt", read, {"qpn:17/response/psn:4:corrupt"}, broken});
  all.push_back({"ResponseDuplicate", read, {"qp:0/response/psn:4:dup"}, {}});
  all.push_back({"ResponseMark",
                 read,
                 {"qp:0/response/psn:4:ce"},
                 {.asker_marked = 1, .asker_notified = 1, .answerer_heeded = 1}});
  return all;
}

std::string name_of(const testing::TestParamInfo<Row>& row) {
  const WrOpcode opcode = row.param.opcode;
  return std::string(opcode == WrOpcode::kRdmaRead ? "Read"
                     : opcode == WrOpcode::kSend   ? "Send"
                                                   : "Write") +
         row.param.name;
}

INSTANTIATE_TEST_SUITE_P(Matrix, Lumina, testing::ValuesIn(rows()), name_of);

}  // namespace
}  // namespace uroce::sim
