#include "control/reports/sampler.h"

#include <algorithm>
#include <utility>

#include "base/time/wall_clock.h"
#include "control/reports/session_objects.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

// Counters that change with the sampling itself are ignored.
bool has_changed(const Sample& before, const Sample& after) {
  if (before.devices != after.devices) {
    return true;
  }
  for (std::size_t i = 0; i < std::size(kDaemonColumns); ++i) {
    const auto member = kDaemonColumns[i].member;
    if (member != &SampledWorkers::turns && member != &SampledWorkers::busy_turns &&
        member != &SampledWorkers::absent_us && before.daemon[i] != after.daemon[i]) {
      return true;
    }
  }
  return false;
}

}  // namespace

Sampler::Sampler(Card& card) : card_(card), beats_(card.engine().workers()) {}

// Activity caused by a sample itself must not be taken for traffic: the first check after it only
// records the counters.
void Sampler::check() {
  const bool active = has_activity();
  if (!idle_.load(std::memory_order_acquire)) {
    settled_ = false;
  } else if (!std::exchange(settled_, true)) {
    return;
  } else if (active) {
    settled_ = false;
    idle_.store(false, std::memory_order_relaxed);
    event_.ring();
  }
}

// The lowest bit of a heartbeat means that the thread waits.
bool Sampler::has_activity() {
  bool active = false;
  for (std::uint32_t worker = 0; worker < beats_.size(); ++worker) {
    const std::uint64_t now = card_.engine().heartbeat(worker).beats() / 2;
    active = now - std::exchange(beats_[worker], now) > kIdleBeatsMax || active;
  }
  return active;
}

void Sampler::on_event() {
  event_.clear();
  deadline_ = std::min(deadline_, std::max(card_.now(), earliest_));
}

void Sampler::on_time(Time now) {
  if (now < deadline_) {
    return;
  }
  if (!walking_) {
    begun_ = now;
    walking_ = begin();
    if (!walking_) {
      deadline_ = now + kPauseWhenStuck;
      return;
    }
  }
  if (!visit_some()) {
    walking_ = false;
    deadline_ = now + kPauseWhenStuck;
  } else if (session_ != kWalkEnd) {
    deadline_ = now + kPause;
  } else {
    walking_ = false;
    earliest_ = begun_ + kInterval;
    deadline_ = std::max(earliest_, now + kPause);
    finish();
  }
}

// The counters of destroyed queue pairs come first, as in the status report.
bool Sampler::begin() {
  workers_ = {};
  workers_.sessions = card_.sessions().size();
  counted_.assign(card_.devices().size(), {});
  timed_.clear();
  timed_.resize(card_.devices().size());
  recent_.resize(card_.devices().size());
  session_ = 0;
  handle_ = 0;
  for (std::uint32_t index = 0; index < card_.engine().workers(); ++index) {
    const bool answered = card_.engine().try_call(index, [&](Worker& worker) {
      workers_.add(worker.counters());
      for (std::size_t port = 0; port < counted_.size(); ++port) {
        counted_[port] += worker.roce_counters(static_cast<std::uint16_t>(port));
        timed_[port] += worker.latencies(static_cast<std::uint16_t>(port));
      }
    });
    if (!answered) {
      return false;
    }
  }
  return true;
}

// Sets session_ to kWalkEnd when all have been visited. False: a worker didn't respond.
bool Sampler::visit_some() {
  std::vector<std::vector<const Qp*>> of_worker(card_.engine().workers());
  const auto& sessions = card_.sessions();
  std::size_t visits = kVisitsInPiece;
  auto at = sessions.lower_bound(session_);
  handle_ = at != sessions.end() && at->first == session_ ? handle_ : 0;
  while (visits != 0 && at != sessions.end()) {
    const Session& session = *at->second;
    for (; handle_ < session.qps.handles_end() && visits != 0; ++handle_, --visits) {
      const QpObject* const object = session.qps.find(handle_);
      if (object != nullptr && counts_in(session, handle_, *object)) {
        of_worker[object->qp->config().worker].push_back(object->qp.get());
      }
    }
    if (visits != 0) {
      --visits;
      ++at;
      handle_ = 0;
    }
  }
  session_ = at == sessions.end() ? kWalkEnd : at->first;
  for (std::uint32_t worker = 0; worker < of_worker.size(); ++worker) {
    const std::vector<const Qp*>& qps = of_worker[worker];
    workers_.queue_pairs += qps.size();
    const bool answered = qps.empty() || card_.engine().try_call(worker, [&](Worker&) {
      for (const Qp* const qp : qps) {
        counted_[qp->config().port] += qp->counters();
        timed_[qp->config().port] += qp->latencies();
      }
    });
    if (!answered) {
      return false;
    }
  }
  return true;
}

void Sampler::finish() {
  Sample sample{.unix_time_ms = unix_time_ms(),
                .monotonic_ms = card_.now() / kNanosecondsPerMillisecond,
                .daemon = {},
                .devices = {},
                .latencies = {}};
  for (const DaemonColumn& column : kDaemonColumns) {
    sample.daemon.push_back(workers_.*column.member);
  }
  for (const Device& device : card_.devices()) {
    const PortCounters port = device.port().counters();
    std::vector<std::uint64_t>& values = sample.devices.emplace_back();
    for (const PortColumn& column : kPortColumns) {
      values.push_back(port.*column.member);
    }
    for (const RoceColumn& column : kRoceColumns) {
      values.push_back(counted_[device.index()].*column.member);
    }
    sample.latencies.push_back(recent_[device.index()].since_remembered(timed_[device.index()]));
  }
  const auto& before = history_.samples();
  const bool changed = before.empty() || has_changed(before.back(), sample);
  if (changed || changed_) {
    history_.add(std::move(sample));
    for (std::size_t device = 0; device < timed_.size(); ++device) {
      recent_[device].remember(timed_[device]);
    }
  }
  changed_ = changed;
  if (!changed) {
    deadline_ = kNever;
    idle_.store(true, std::memory_order_release);
  }
}

}  // namespace uroce::control
