// Visits of queue pairs that send nothing: a turn has a bounded number of them.

#include <gtest/gtest.h>

#include <cstdint>

#include "dataplane/engine/worker_state.h"
#include "tests/unit/engine/many_pairs.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kPairs = 3 * kFruitlessMax;

std::uint32_t count_done(ManyPairs& pairs) {
  std::uint32_t done = 0;
  for (Endpoint& sender : pairs.senders) {
    done += sender.poll_send() ? 1 : 0;
  }
  return done;
}

// Each queue pair has a local operation, which is done, or here fails, without a frame.
TEST(FruitlessVisits, AreBoundedPerTurnAndContinueInTheNext) {
  ManyPairs pairs(kPairs);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    pairs.senders[i].post_send(send_wr(1, abi::WrOpcode::kLocalInv), {});
    pairs.daemon.station.ring(pairs.slots[i]);
  }
  Worker& worker = pairs.daemon.station.worker;
  EXPECT_TRUE(worker.poll(pairs.daemon.now));
  EXPECT_EQ(count_done(pairs), kFruitlessMax);
  EXPECT_EQ(worker.next_deadline(), 0U);
  std::uint32_t done = kFruitlessMax;
  for (std::uint32_t turn = 0; turn < 100 && worker.next_deadline() == 0; ++turn) {
    worker.poll(pairs.daemon.now);
    done += count_done(pairs);
  }
  EXPECT_EQ(done, kPairs);
}

// Another user's queue pair that rings last is visited after one of the many.
TEST(FruitlessVisits, LeaveOtherUsersTheirTurn) {
  ManyPairs pairs(kPairs);
  OneDaemon& daemon = pairs.daemon;
  EndpointConfig config{.qpn = 33, .memory_bytes = 4'096, .user = 7};
  config.keys = &daemon.pair.a.keys();
  Endpoint other(config);
  QpAttributes attributes = daemon.pair.attributes(true);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    attributes.state = state;
    other.modify(attributes, ~0U, daemon.now);
  }
  const std::uint32_t slot = daemon.station.add(other.qp());
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    pairs.senders[i].post_send(send_wr(1, abi::WrOpcode::kLocalInv), {});
    daemon.station.ring(pairs.slots[i]);
  }
  const abi::Sge sge = other.sge(0, 8);
  other.post_send(rdma_wr(1, abi::WrOpcode::kRdmaWrite, daemon.pair.b, 0), {&sge, 1});
  daemon.station.ring(slot);
  daemon.station.worker.poll(daemon.now);
  EXPECT_EQ(other.qp().counters().requests_sent, 1U);
  daemon.station.worker.remove_qp(other.qp());
}

}  // namespace
}  // namespace uroce::test
