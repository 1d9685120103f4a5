// What a worker counts per port: frames that belong to no queue pair, and the counters of removed
// queue pairs.

#include <gtest/gtest.h>

#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

TEST(PortCounters, KeepWhatARemovedQueuePairCounted) {
  Stations stations;
  stations.post_write(1, 10'000);
  stations.settle();
  const RoceCounters before = stations.pair.a.qp().counters();
  ASSERT_GT(before.requests_sent, 0U);
  EXPECT_EQ(stations.a.worker.roce_counters(0).requests_sent, 0U);
  stations.a.worker.remove_qp(stations.pair.a.qp());
  stations.a.worker.remove_qp(stations.pair.a.qp());
  EXPECT_EQ(stations.a.worker.roce_counters(0).requests_sent, before.requests_sent);
  EXPECT_EQ(stations.a.worker.roce_counters(0).bytes_sent, before.bytes_sent);
}

TEST(PortCounters, CountsFramesWhoseInvariantCrcIsWrong) {
  Stations stations;
  stations.post_write(1, 8);
  stations.a.worker.poll(stations.now);
  Frame* frame = nullptr;
  ASSERT_EQ(stations.ports.second->rx_burst(0, &frame, 1, stations.now), 1U);
  frame->data[frame->length - 1] ^= std::byte{1};
  ASSERT_EQ(stations.ports.first->tx_burst(0, &frame, 1, stations.now), 1U);
  stations.b.worker.poll(stations.now);
  EXPECT_EQ(stations.b.worker.roce_counters(0).rx_icrc_encapsulated, 1U);
  EXPECT_EQ(stations.a.worker.roce_counters(0).rx_icrc_encapsulated, 0U);
}

}  // namespace
}  // namespace uroce::test
