// Frames of a queue pair whose memory isn't resident wait in the worker, in order and bounded.
// Memory is the fake of tests/unit/qp.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"
#include "tests/unit/qp/fake_memory.h"

namespace uroce::test {
namespace {

TEST(WorkerPark, KeepsSoManyFramesAndDropsTheRest) {
  Stations stations({}, {.wire_entries = 1'024, .frames = 8'192});
  fill_pattern(stations.pair.a.memory, 5);
  const std::uint64_t start = stations.pair.b.address(0);
  const std::uint64_t stop = start + stations.pair.b.memory.size();
  missing = [=](std::uint64_t address) { return address >= start && address < stop; };
  stations.post_write(1, 400'000);
  stations.settle();
  EXPECT_FALSE(stations.pair.a.poll_send());
  note_drops(stations.b.worker.counters().drops);
  EXPECT_GT(stations.b.worker.counters().drops[static_cast<std::size_t>(Drop::kParkFull)], 0U);

  missing = nullptr;
  stations.b.worker.resume(stations.pair.b.qp());
  while (!stations.pair.a.poll_send()) {  // the dropped ones come again by their timer
    stations.settle();
    ASSERT_NE(stations.a.worker.next_deadline(), kNever);
    stations.now = std::max(stations.now + 1, stations.a.worker.next_deadline());
  }
  EXPECT_TRUE(std::equal(stations.pair.a.memory.begin(), stations.pair.a.memory.begin() + 400'000,
                         stations.pair.b.memory.begin()));
}

}  // namespace
}  // namespace uroce::test
