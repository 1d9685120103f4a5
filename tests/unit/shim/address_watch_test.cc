// Mutual exclusion of changers and helpers, without starvation of either.

#include "verbs_shim/memory/sharing/address_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace uroce::shim::test {
namespace {

constexpr std::uint64_t kChunk = AddressWatch::kChunk;
constexpr int kTurns = 2'000;

// A range of one chunk, and a value that is written to: a data race if two threads are inside.
struct Place {
  std::uint64_t start = 0;
  int value = 0;
};

class AddressWatchTest : public testing::Test {
 protected:
  AddressWatchTest() { EXPECT_TRUE(watch.open()); }

  // Waits until there are changers to compete with.
  void wait_for_changers() const {
    while (entered < 100) {
      std::this_thread::yield();
    }
  }

  AddressWatch watch;
  std::array<Place, 2> places{Place{.start = 10 * kChunk}, Place{.start = 11 * kChunk}};
  std::atomic<int> entered{0};
  std::atomic<bool> stop{false};
};

TEST_F(AddressWatchTest, AHelperGetsItsTurnBesideChangersThatNeverPause) {
  std::vector<std::thread> changers;
  for (Place& place : places) {
    changers.emplace_back([&] {
      while (!stop) {
        const unsigned at = watch.enter({place.start, place.start + kChunk});
        ++place.value;
        ++entered;
        watch.forget(place.start, place.start + kChunk);
        watch.leave(at);
      }
    });
  }
  wait_for_changers();
  for (int turn = 0; turn < kTurns; ++turn) {
    watch.claim(places[0].start, places[1].start + kChunk);
    EXPECT_TRUE(watch.described(places[0].start, places[0].start + 1));
    EXPECT_TRUE(watch.described(places[1].start, places[1].start + 1));
    ++places[0].value;
    ++places[1].value;
    watch.unclaim();
  }
  stop = true;
  for (std::thread& changer : changers) {
    changer.join();
  }
  EXPECT_GE(places[0].value, kTurns);
}

// As mremap does: both are entered at once, since otherwise a helper and a changer would deadlock.
TEST_F(AddressWatchTest, AChangerMayHaveTwoRanges) {
  std::thread changer([&] {
    while (!stop) {
      const unsigned at = watch.enter({places[0].start, places[0].start + kChunk},
                                      {places[1].start, places[1].start + kChunk});
      ++places[0].value;
      ++places[1].value;
      ++entered;
      watch.leave(at);
    }
  });
  wait_for_changers();
  for (int turn = 0; turn < kTurns; ++turn) {
    Place& place = places[static_cast<std::size_t>(turn) % 2];
    watch.claim(place.start, place.start + kChunk);
    ++place.value;
    watch.unclaim();
  }
  stop = true;
  changer.join();
  EXPECT_GE(places[0].value, kTurns / 2);
}

TEST_F(AddressWatchTest, ClaimedRangesAreDescribedUntilForgotten) {
  EXPECT_FALSE(watch.described(places[0].start, places[0].start + 1));
  watch.claim(places[0].start, places[0].start + kChunk);
  watch.unclaim();
  EXPECT_TRUE(watch.described(places[0].start, places[0].start + 1));
  EXPECT_FALSE(watch.described(places[1].start, places[1].start + kChunk));
  watch.forget(places[0].start, places[0].start + kChunk - 1);
  EXPECT_TRUE(watch.described(places[0].start, places[0].start + 1))
      << "only part of the chunk was forgotten";
  watch.forget(places[0].start, places[0].start + kChunk);
  EXPECT_FALSE(watch.described(places[0].start, places[0].start + 1));
}

TEST_F(AddressWatchTest, AForksChildBeginsWithNothing) {
  watch.start_announcing();
  watch.claim(places[0].start, places[0].start + kChunk);
  watch.reset();
  EXPECT_FALSE(watch.announcing());
  EXPECT_FALSE(watch.described(places[0].start, places[0].start + 1));
}

}  // namespace
}  // namespace uroce::shim::test
