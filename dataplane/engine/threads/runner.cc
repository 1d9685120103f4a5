#include "dataplane/engine/threads/runner.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/time/monotonic_clock.h"

namespace uroce {
namespace {

// Idle turns after which the processor is yielded, if others share it. Measured on two cores with
// four spinning processes: without yielding, the median round trip grows from 25 us to 3 ms,
// because a woken worker doesn't preempt a spinning program.
constexpr std::uint32_t kTurnsBeforeYield = 4;
// The same as long as none is known to (CpuShortage). A yield takes as long as ten idle turns, and
// a doorbell that is rung meanwhile waits: with 4 here, a lone message of latency_bench takes 3.0
// us rather than 1.2.
constexpr std::uint32_t kTurnsBeforeYieldAlone = 64;
// An adaptive worker sleeps after being idle for this long: about the cost of sleeping and being
// woken. Longer spinning takes the processor from threads that have work: the mean round trip of
// the same measurement grows from 40 us at 30 us to 400 us at 1 ms.
constexpr Duration kSpin = 30 * kNanosecondsPerMicrosecond;
// The same if other threads share its processor. sched_yield() gives them the processor only if the
// worker has used more of it than they have, and a doorbell doesn't bring the worker back before
// their time slice ends; from a sleep it does. Typical and mean latency of ib_write_lat on two
// cores with four spinning processes: 31 and 73 us with 30 us, 8 and 20 with 1 to 3 us, 10 and 30
// with 5 us. Not used if frames arrive from outside: the next frame of a flow arrives soon, and a
// wake-up for it costs more than a doorbell (compare_tcp.sh --wire udp lost an eighth).
constexpr Duration kSpinBesideOthers = 2 * kNanosecondsPerMicrosecond;
// Naps for ports that can't signal arriving frames: a fraction of the time without frames, so that
// the delay stays proportionate.
constexpr Duration kNapMin = 20 * kNanosecondsPerMicrosecond;
constexpr Duration kNapMax = 1 * kNanosecondsPerMillisecond;
constexpr Duration kNapShare = 8;
// Longest sleep: a port may come up, or a clock step; one wake-up a second costs nothing.
constexpr Duration kSleepMax = kNanosecondsPerSecond;

void watch(int epoll, int descriptor, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = descriptor}};
  // May fail if the program tampered with its own eventfd; the only effect is that it doesn't wake
  // the worker.
  epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

CpuShortage::Usage this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {.ran = thread_processor_time(), .displaced = static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

Worker::Config with_wakeup(Worker::Config config, Wakeup* wakeup) {
  config.wakeup = wakeup;
  return config;
}

}  // namespace

Runner::Runner(const Config& config)
    : wakeup_(config.status != nullptr ? config.status : &own_status_),
      worker_(with_wakeup(config.worker, &wakeup_)),
      mailbox_(wakeup_, heartbeat_),
      ports_(config.worker.ports),
      queue_(static_cast<std::uint16_t>(config.worker.index)),
      quiescence_(config.worker.quiescence),
      index_(config.worker.index),
      policy_(config.idle),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  UROCE_CHECK(quiescence_ != nullptr);
  watch(epoll_, wakeup_.descriptor(), EPOLLIN | EPOLLET);
  watched_ports_.assign(ports_.size(), -1);
}

Runner::~Runner() { close(epoll_); }

void Runner::run() {
  prctl(PR_SET_NAME, ("uroce-worker-" + std::to_string(index_)).c_str());
  prctl(PR_SET_TIMERSLACK, 1UL);  // naps and deadlines are in microseconds
  worker_lock_.lock();
  quiescence_->online(index_);
  heartbeat_.begin();
  run_delay_ = {};
  cpu_shortage_ = {};  // it referred to another thread's clock
  bool busy = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    heartbeat_.beat();
    wakeup_.publish_beats(heartbeat_.beats());
    const Time now = monotonic_now();
    worker_.was_descheduled(run_delay_.turn_begins(now));
    const bool crowded = cpu_shortage_.turn_begins(now, busy, this_thread);
    wakeup_.publish_load(crowded, cpu_shortage_.shares(now));
    busy = turn(now);
    if (busy) {
      idle_turns_ = 0;
    } else {
      idle(now);
    }
  }
  heartbeat_.end();
  quiescence_->offline(index_);
  worker_lock_.unlock();
  stopping_.store(false, std::memory_order_relaxed);
}

bool Runner::turn(Time now) {
  bool busy = false;
  if (!mailbox_.empty()) {
    worker_.set_time(now);
    busy = mailbox_.run_tasks(worker_, [this] {
      watch_sessions();
      forget_ports();
    });
    busy |= mailbox_.send_frames(worker_, now);
  }
  return worker_.poll(now) || busy;
}

void Runner::run_here(const std::function<void(Worker&)>& task) noexcept {
  worker_.set_time(monotonic_now());
  task(worker_);
  worker_.task_ends();
  watch_sessions();
  forget_ports();
}

// While the task runs, objects that it looks up count as held by the worker. The heartbeat rests
// until the worker is woken: from then on the worker waits for the lock, and is watched as if it
// ran the task itself. std::bad_alloc in a task ends the process, as on the worker's own thread,
// since the task may be half done.
bool Runner::run_while_asleep(const std::function<void(Worker&)>& task) noexcept {
  if (!worker_lock_.try_lock()) {
    return false;
  }
  const std::uint64_t ports_before = port_changes_;
  quiescence_->online(index_);
  run_here(task);
  quiescence_->offline(index_);
  if (worker_.next_deadline() < sleeps_until_ || port_changes_ != ports_before) {
    wakeup_.ring();
  }
  worker_lock_.unlock();
  return true;
}

void Runner::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  wakeup_.ring();
}

void Runner::idle(Time now) {
  if (idle_turns_++ == 0) {
    idle_since_ = now;
  }
  if (policy_ == IdlePolicy::kAdaptive && now - idle_since_ >= spin_limit(now)) {
    sleep(now);
  } else if (idle_turns_ % turns_before_yield(now) == 0) {
    sched_yield();
  }
}

// How long it polls without finding work before it sleeps.
Duration Runner::spin_limit(Time now) const {
  return cpu_shortage_.shares(now) && !polls_ports_ ? kSpinBesideOthers : kSpin;
}

std::uint32_t Runner::turns_before_yield(Time now) const {
  return cpu_shortage_.shares(now) ? kTurnsBeforeYield : kTurnsBeforeYieldAlone;
}

void Runner::sleep(Time now) {
  watch_ports();
  wakeup_.fall_asleep();
  // From here on producers of work ring. Now the last look for work, then the odd count of beats.
  const Time deadline = worker_.next_deadline();
  const Duration limit = sleep_limit(now);
  if (deadline > now && arm_ports() && !worker_.has_arrivals() && mailbox_.empty() &&
      !stopping_.load(std::memory_order_relaxed)) {
    const Duration timeout = std::min(deadline - now, limit);
    const timespec wait{.tv_sec = static_cast<time_t>(timeout / kNanosecondsPerSecond),
                        .tv_nsec = static_cast<long>(timeout % kNanosecondsPerSecond)};
    std::array<epoll_event, 8> events;
    quiescence_->offline(index_);
    sleeps_until_ = now + timeout;
    run_delay_.sleeps_until(sleeps_until_);
    cpu_shortage_.sleeps(now);
    heartbeat_.rest();
    wakeup_.publish_beats(heartbeat_.beats());
    worker_lock_.unlock();
    const int woken = epoll_pwait2(epoll_, events.data(), events.size(), &wait, nullptr);
    heartbeat_.beat();
    worker_lock_.lock();
    quiescence_->online(index_);
    worker_.count_sleep();
    if (woken > 0) {
      idle_turns_ = 0;  // There is activity: spin again before the next sleep.
    }
  }
  disarm_ports();
  wakeup_.wake_up();
}

// The limit of a sleep that follows from ports with frames that arrive without a signal, or before
// it.
Duration Runner::sleep_limit(Time now) const {
  const Duration silent = now - idle_since_;
  const bool unannounced =
      std::any_of(ports_.begin(), ports_.end(), [this, silent](const Port* port) {
        return port->needs_polling() &&
               (port->wait_descriptor(queue_) < 0 || silent < port->signal_delay_max(queue_));
      });
  return unannounced ? std::clamp(silent / kNapShare, kNapMin, kNapMax) : kSleepMax;
}

// False if a frame is already there.
bool Runner::arm_ports() {
  bool empty = true;
  for (Port* port : ports_) {
    empty &= port->arm_wait(queue_);
  }
  return empty;
}

void Runner::disarm_ports() {
  for (Port* port : ports_) {
    port->disarm_wait(queue_);
  }
}

// A port may have its descriptor only once its peer has connected. Edge-triggered: frames that are
// there already are found by arm_ports(), later ones are edges, and eventfds needn't be read.
void Runner::watch_ports() {
  polls_ports_ = std::any_of(ports_.begin(), ports_.end(),
                             [](const Port* port) { return port->needs_polling(); });
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const int descriptor = ports_[i]->wait_descriptor(queue_);
    if (descriptor >= 0 && watched_ports_[i] != descriptor) {
      watched_ports_[i] = descriptor;
      watch(epoll_, descriptor, EPOLLIN | EPOLLET);
    }
  }
}

// A port that is recreated has other descriptors, perhaps with the old numbers. The epoll dropped
// the old ones when they were closed.
void Runner::forget_ports() {
  if (port_changes_ != worker_.port_changes()) {
    port_changes_ = worker_.port_changes();
    watched_ports_.assign(ports_.size(), -1);
  }
}

// Follows the worker's sessions. Runs before control learns that its task is done, because control
// may close the descriptor then, while the program keeps the same description open in epoll.
void Runner::watch_sessions() {
  if (watched_changes_ == worker_.session_changes()) {
    return;
  }
  watched_changes_ = worker_.session_changes();
  // Only sessions that were added or removed cost a system call. Both lists are in order of
  // addition.
  const std::span<SessionDoorbells* const> sessions = worker_.sessions();
  std::size_t kept = 0;
  for (const int descriptor : watched_) {
    if (kept < sessions.size() && sessions[kept]->wake_descriptor == descriptor) {
      watched_[kept++] = descriptor;
    } else {
      epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
    }
  }
  watched_.resize(kept);
  for (const SessionDoorbells* session : sessions.subspan(kept)) {
    // Edge-triggered and never read: a write always wakes, whatever the program does to it.
    watch(epoll_, session->wake_descriptor, EPOLLIN | EPOLLET);
    watched_.push_back(session->wake_descriptor);
  }
}

}  // namespace uroce
