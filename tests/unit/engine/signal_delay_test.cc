// Workers on a card whose interrupts come late, or never.

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/time/monotonic_clock.h"
#include "base/unique_fd.h"
#include "dataplane/engine/engine.h"
#include "mmu/key_table.h"

namespace uroce::test {
namespace {

// A sleeping worker without a deadline wakes once a second (Runner's kSleepMax), so that this many
// sleeps show that it naps, also on a machine that is fifty times slower than expected.
constexpr std::uint64_t kNaps = 20;
constexpr Duration kNapsMax = 10 * kNanosecondsPerSecond;

// Nothing ever arrives, and the descriptor never signals.
class QuietCard final : public Port {
 public:
  explicit QuietCard(Time delay) : delay_(delay) {}
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t allocate(Frame**, std::uint32_t) override { return 0; }
  void release(Frame**, std::uint32_t) override {}
  [[nodiscard]] PortInfo info() const override { return {}; }
  [[nodiscard]] PortCounters counters() const override { return {}; }
  [[nodiscard]] int wait_descriptor(std::uint16_t) const override { return signal_.get(); }
  [[nodiscard]] Time signal_delay_max(std::uint16_t) const override { return delay_; }

 private:
  Time delay_;
  UniqueFd signal_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

class SignalDelayTest : public testing::Test {
 protected:
  void given(Time delay) {
    card_ = std::make_unique<QuietCard>(delay);
    engine_ = std::make_unique<Engine>(Engine::Config{}, std::vector<Port*>{card_.get()}, keys_,
                                       quiescence_);
    ASSERT_TRUE(engine_->start());
  }
  std::uint64_t sleeps() {
    std::uint64_t count = 0;
    engine_->call(0, [&count](Worker& worker) { count = worker.counters().sleeps; });
    return count;
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  std::unique_ptr<QuietCard> card_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(SignalDelayTest, ACardThatHasNeverSignalledIsPolled) {
  given(kNever);
  const Time start = monotonic_now();
  while (sleeps() < kNaps && monotonic_now() - start < kNapsMax) {
    std::this_thread::yield();
  }
  EXPECT_GE(sleeps(), kNaps);
}

TEST_F(SignalDelayTest, AfterTheDelayTheWorkerWaitsForTheSignalAlone) {
  given(20 * kNanosecondsPerMillisecond);
  // Naps are of a millisecond at most: none within a tenth of a second shows that it waits.
  const Time start = monotonic_now();
  std::uint64_t before = sleeps();
  Time since = start;
  while (monotonic_now() - since < 100 * kNanosecondsPerMillisecond) {
    ASSERT_LT(monotonic_now() - start, kNapsMax) << "it still naps";
    if (const std::uint64_t now = sleeps(); now != before) {
      before = now;
      since = monotonic_now();
    }
    std::this_thread::yield();
  }
  SUCCEED();
}

}  // namespace
}  // namespace uroce::test
