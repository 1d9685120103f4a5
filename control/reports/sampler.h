#pragma once

// Takes the samples of History: one per second while there is activity, otherwise none. The
// watchdog thread, which reads the workers' heartbeats anyway, detects activity, so an idle daemon
// isn't woken for this. The control thread takes the sample: a short task in each worker
// (Engine::try_call), and a pass over the queue pairs in pieces, as for the status report.

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
  // A worker that sleeps and is woken occasionally beats less often between two checks.
  static constexpr std::uint64_t kIdleBeatsMax = 64;
  // Queue pairs visited in one piece, and the pause between pieces: thus adding up the histograms
  // of many thousands costs less than a percent of a worker, and a sample takes longer than
  // kInterval.
  static constexpr std::size_t kVisitsInPiece = 128;
  static constexpr Duration kPause = 15 * kNanosecondsPerMillisecond;
  // After a worker didn't respond.
  static constexpr Duration kPauseWhenStuck = 30 * kNanosecondsPerSecond;

  // The card outlives it.
  explicit Sampler(Card& card);

  // Called by the watchdog thread every Watchdog::kCheckInterval.
  void check();
  // Readable: check() has detected activity. Control then calls on_event().
  [[nodiscard]] int descriptor() const { return event_.get(); }

  // Called by control.
  void on_event();
  void on_time(Time now);
  [[nodiscard]] Time next_deadline() const { return deadline_; }
  [[nodiscard]] const History& history() const { return history_; }

 private:
  static constexpr std::uint64_t kWalkEnd = UINT64_MAX;  // as session_

  [[nodiscard]] bool has_activity();
  bool begin();
  bool visit_some();
  void finish();

  Card& card_;
  EventFd event_;

  // Used by the watchdog thread only.
  std::vector<std::uint64_t> beats_;  // at the last check, by worker
  bool settled_ = false;              // check() has run since the last sample

  // Set by control when activity has ended (release), cleared by the watchdog thread when it
  // signals event_ (acquire).
  std::atomic<bool> idle_{true};

  // Used by control only.
  History history_;
  Time deadline_ = kNever;
  Time begun_ = 0;
  Time earliest_ = 0;  // of the next sample
  bool walking_ = false;
  // Whether counters changed between the last two samples. If not, another sample would only evict
  // an older one: a polling worker always seems active.
  bool changed_ = true;
  SampledWorkers workers_;
  std::vector<RoceCounters> counted_;  // of each device
  std::vector<Latencies> timed_;       // likewise
  std::vector<RecentLatencies> recent_;
  std::uint64_t session_ = 0;  // where the walk continues
  std::uint32_t handle_ = 0;
};

}  // namespace uroce::control
