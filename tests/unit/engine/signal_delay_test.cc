// Workers on a card whose interrupts come late, or never.

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
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
// wake-ups show that it naps, also on a machine that is fifty times slower than expected.
constexpr std::uint32_t kNaps = 20;
constexpr Duration kNapsMax = 10 * kNanosecondsPerSecond;
constexpr Duration kDelay = 20 * kNanosecondsPerMillisecond;
// Naps are of a millisecond at most: none for so long shows that it sleeps.
constexpr Duration kNoNap = 200 * kNanosecondsPerMillisecond;
constexpr std::chrono::milliseconds kLook{1};

// Nothing ever arrives, and the descriptor never signals. It counts how often its worker wakes.
class QuietCard final : public Port {
 public:
  explicit QuietCard(Duration delay) : delay_(delay) {}
  std::uint32_t rx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t tx_burst(std::uint16_t, Frame**, std::uint32_t, Time) override { return 0; }
  std::uint32_t allocate(Frame**, std::uint32_t) override { return 0; }
  void release(Frame**, std::uint32_t) override {}
  [[nodiscard]] PortInfo info() const override { return {}; }
  [[nodiscard]] PortCounters counters() const override { return {}; }
  [[nodiscard]] int wait_descriptor(std::uint16_t) const override { return signal_.get(); }
  void disarm_wait(std::uint16_t) override { ++wakes; }
  [[nodiscard]] Duration signal_delay_max(std::uint16_t) const override { return delay_; }

  std::atomic<std::uint32_t> wakes{0};

 private:
  Duration delay_;
  UniqueFd signal_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

class SignalDelayTest : public testing::Test {
 protected:
  void given(Duration delay) {
    card_ = std::make_unique<QuietCard>(delay);
    engine_ = std::make_unique<Engine>(Engine::Config{}, std::vector<Port*>{card_.get()}, keys_,
                                       quiescence_);
    ASSERT_TRUE(engine_->start());
  }
  // False: not within kNapsMax.
  [[nodiscard]] bool naps() {
    const Time start = monotonic_now();
    while (card_->wakes.load() < kNaps && monotonic_now() - start < kNapsMax) {
      std::this_thread::sleep_for(kLook);
    }
    return card_->wakes.load() >= kNaps;
  }

  Quiescence quiescence_;
  KeyTable keys_{quiescence_, 64, 1};
  std::unique_ptr<QuietCard> card_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(SignalDelayTest, ACardThatHasNeverSignalledIsPolled) {
  given(kNever);
  EXPECT_TRUE(naps());
}

TEST_F(SignalDelayTest, AfterTheDelayTheWorkerWaitsForTheSignalAlone) {
  given(kDelay);
  EXPECT_TRUE(naps());
  const Time start = monotonic_now();
  std::uint32_t before = card_->wakes.load();
  for (Time since = start; monotonic_now() - since < kNoNap; std::this_thread::sleep_for(kLook)) {
    ASSERT_LT(monotonic_now() - start, kNapsMax) << "it still naps";
    if (const std::uint32_t now = card_->wakes.load(); now != before) {
      before = now;
      since = monotonic_now();
    }
  }
}

}  // namespace
}  // namespace uroce::test
