// A queue pair that the peer reads from without a pause, and that writes meanwhile: between two
// cards of one worker each, and between the two workers of one card on a loopback port.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "dataplane/port/loopback_port.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr std::size_t kReadBytes = 300'000;
constexpr int kTurns = 2'000;
// Turns that a write may take: there and back, with the other worker in between.
constexpr int kTurnsMax = 8;

// b keeps two READs from a outstanding; a has one WRITE of 8 bytes under way at a time.
class Traffic {
 public:
  Traffic(QpPair& pair, Station& a, Station& b) : pair_(pair), a_(a), b_(b) {}

  // The programs' side of a turn.
  void step() {
    ++turn_;
    while (const auto cqe = pair_.b.poll_send()) {
      EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
      --reads_out_;
      ++reads;
    }
    for (; reads_out_ < 2; ++reads_out_) {
      const abi::Sge sge = pair_.b.sge(0, kReadBytes);
      pair_.b.post_send(rdma_wr(1, abi::WrOpcode::kRdmaRead, pair_.a, 0), {&sge, 1});
      b_.ring();
    }
    if (const auto cqe = pair_.a.poll_send()) {
      EXPECT_EQ(cqe->status, abi::WcStatus::kSuccess);
      turns_max = std::max(turns_max, turn_ - *posted_at_);
      posted_at_.reset();
      ++writes;
    }
    // The first READs are being answered by then.
    if (!posted_at_ && reads >= 2) {
      const abi::Sge sge = pair_.a.sge(0, 8);
      pair_.a.post_send(rdma_wr(2, abi::WrOpcode::kRdmaWrite, pair_.b, kReadBytes), {&sge, 1});
      a_.ring();
      posted_at_ = turn_;
    }
  }

  int reads = 0;
  int writes = 0;
  int turns_max = 0;  // the longest that a write took

 private:
  QpPair& pair_;
  Station& a_;
  Station& b_;
  int turn_ = 0;
  int reads_out_ = 0;
  std::optional<int> posted_at_;
};

TEST(RoleShare, APeerThatAlwaysReadsDoesNotSilenceOurWrites) {
  Stations stations;
  Traffic traffic(stations.pair, stations.a, stations.b);
  for (int turn = 0; turn < kTurns; ++turn) {
    traffic.step();
    stations.a.worker.poll(stations.now);
    stations.b.worker.poll(stations.now);
  }
  EXPECT_GT(traffic.writes, kTurns / kTurnsMax);
  EXPECT_LE(traffic.turns_max, kTurnsMax);
  EXPECT_GT(traffic.reads, 50);
}

// Worker 0 receives what it sends itself, and hands it over to worker 1.
TEST(RoleShare, NorWithItsEndsOnTwoWorkersOfOneCard) {
  LoopbackPort port(4'200, 2);
  QpPair pair({.a = {.qpn = 18}, .b = {.qpn = 19}});
  for (Endpoint* end : {&pair.a, &pair.b}) {
    QpAttributes attributes = pair.attributes(end == &pair.a);
    attributes.path.destination_mac = port.info().mac;
    end->modify(attributes, kQpMaskPath);
  }
  const auto config = [&](std::uint32_t index, Endpoint& end) {
    return Worker::Config{.index = index, .workers = 2, .ports = {&port}, .keys = &end.keys()};
  };
  Station a(config(0, pair.a), "10.0.0.1");
  Station b(config(1, pair.b), "10.0.0.2");
  const std::array<Worker*, 2> workers{&a.worker, &b.worker};
  for (Worker* worker : workers) {
    worker->set_peers(workers);
    worker->set_addresses(0, {parse_ip("10.0.0.1").value(), parse_ip("10.0.0.2").value()});
  }
  a.add(pair.a.qp());
  b.add(pair.b.qp());
  Traffic traffic(pair, a, b);
  for (int turn = 0; turn < kTurns; ++turn) {
    traffic.step();
    a.worker.poll(pair.now);
    b.worker.poll(pair.now);
  }
  EXPECT_GT(traffic.writes, kTurns / kTurnsMax);
  EXPECT_LE(traffic.turns_max, kTurnsMax);
  EXPECT_GT(traffic.reads, 50);
}

}  // namespace
}  // namespace uroce::test
