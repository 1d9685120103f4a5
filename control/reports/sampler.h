#pragma once

// Takes the samples of History: one a second while there is activity, none while there is none. The
// watchdog's thread, which reads the workers' heartbeats anyway, detects activity; so an idle
// daemon isn't woken for this. Control takes the sample: a short task of each worker
// (Engine::try_call), and a pass over queue pairs in pieces like those of the status report.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/event_fd.h"
#include "base/time.h"
#include "control/reports/history.h"
#include "control/reports/recent_latencies.h"
#include "control/reports/sampled_columns.h"
#include "control/sessions/card.h"

namespace uroce::control {

class Sampler {
 public:
  static constexpr Duration kInterval = kNanosecondsPerSecond;
  // A worker that sleeps and is woken now and then beats less often between two looks.
  static constexpr std::uint64_t kIdleBeatsMax = 64;
  // Queue pairs looked at in one piece, and the pause between two pieces: so many thousands of
  // them, whose histograms are added up, cost less than a percent of a worker, and a sample takes
  // longer than kInterval.
  static constexpr std::size_t kLooksInPiece = 128;
  static constexpr Duration kPause = 15 * kNanosecondsPerMillisecond;
  // After a worker didn't answer.
  static constexpr Duration kPauseWhenStuck = 30 * kNanosecondsPerSecond;

  // The card outlives it.
  explicit Sampler(Card& card);

  // The watchdog's thread, every Watchdog::kLookInterval.
  void look();
  // Readable: look() found that something moves. Control then calls on_event().
  [[nodiscard]] int descriptor() const { return event_.get(); }

  // Control.
  void on_event();
  void on_time(Time now);
  [[nodiscard]] Time next_deadline() const { return deadline_; }
  [[nodiscard]] const History& history() const { return history_; }

 private:
  static constexpr std::uint64_t kWalkEnd = UINT64_MAX;  // as session_

  [[nodiscard]] bool something_moves();
  bool begin();
  bool look_at_some();
  void finish();

  Card& card_;
  EventFd event_;

  // The watchdog's thread's.
  std::vector<std::uint64_t> beats_;  // at the last look, by worker
  bool settled_ = false;              // there was a look since the last sample

  // Set by control when nothing moves any more (release), cleared by the watchdog's thread when it
  // rings (acquire).
  std::atomic<bool> resting_{true};

  // Control's.
  History history_;
  Time deadline_ = kNever;
  Time begun_ = 0;
  Time earliest_ = 0;  // of the next sample
  bool walking_ = false;
  // Between the last two samples. Where nothing has since, another one would only push out an older
  // one: a worker that polls is always busy.
  bool moved_ = true;
  SampledWorkers workers_;
  std::vector<RoceCounters> counted_;  // of each device
  std::vector<Latencies> timed_;       // likewise
  std::vector<RecentLatencies> recent_;
  std::uint64_t session_ = 0;  // where the walk goes on
  std::uint32_t handle_ = 0;
};

}  // namespace uroce::control
