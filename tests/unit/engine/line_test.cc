// Many queue pairs with something to send: more than the worker prefetches.

#include <gtest/gtest.h>

#include "dataplane/engine/worker_state.h"
#include "tests/unit/engine/many_pairs.h"

namespace uroce::test {
namespace {

// So long that one turn serves only some of the queue pairs.
constexpr std::uint32_t kLength = ManyPairs::kMemory;
constexpr std::uint32_t kPairs = 2 * kCachedMax;
constexpr std::uint32_t kServedMax = kDirectBytesMax / kLength + 1;
static_assert(kPairs > kServedMax + kCachedMax);

bool completed(Endpoint& end, std::uint64_t id) {
  const auto cqe = end.poll_send();
  return cqe && cqe->status == abi::WcStatus::kSuccess && cqe->wr_id == id;
}

TEST(Line, RemovedQueuePairsLeaveTheOthersQueued) {
  ManyPairs pairs(kPairs);
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    pairs.post_write(i, i, kLength);
  }
  Worker& worker = pairs.daemon.station.worker;
  worker.poll(pairs.daemon.now);
  std::uint32_t first = 0;  // the first that still waits
  while (completed(pairs.senders[first], first)) {
    ++first;
  }
  ASSERT_GT(first, 0U);
  ASSERT_LE(first, kServedMax);
  for (const std::uint32_t gone : {first, first + 1, first + 3, kPairs - 1}) {
    worker.remove_qp(pairs.senders[gone].qp());
  }
  pairs.daemon.settle();
  for (std::uint32_t i = first; i < kPairs; ++i) {
    const bool gone = i == first || i == first + 1 || i == first + 3 || i == kPairs - 1;
    EXPECT_EQ(completed(pairs.senders[i], i), !gone) << i;
  }
}

}  // namespace
}  // namespace uroce::test
