#include "control/foreign/helper_pool.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "base/all_processors.h"
#include "base/event_fd.h"
#include "base/start_thread.h"
#include "base/time/heartbeat.h"
#include "base/time/liveness.h"
#include "base/time/monotonic_clock.h"

namespace uroce::control {
namespace {

constexpr Duration kCheckInterval = 100 * kNanosecondsPerMillisecond;

}  // namespace

struct HelperPool::State {
  struct Jobs {
    [[nodiscard]] bool under_way() const { return has_helper || !waiting.empty(); }

    std::deque<std::function<void()>> waiting;
    bool has_helper = false;
    Heartbeat heartbeat;  // the helper's, a beat for each job
    Liveness liveness{heartbeat};
    Time checked = monotonic_now();
    Duration held_up = 0;  // up to `checked`: time spent in this job, or waiting for a helper
  };

  explicit State(Duration how_long) : timeout(how_long) {}

  void update_liveness(const User& user, Jobs& jobs, Time now);
  Status check(const User& user);
  void add(const std::shared_ptr<State>& self, const User& user, std::function<void()> job);
  Status start_one(const std::shared_ptr<State>& self);
  void serve(const std::shared_ptr<State>& self);
  void run_jobs(std::unique_lock<std::mutex>& lock, const User& user, Jobs& jobs);
  [[nodiscard]] bool may_have_helper(const User& user) const;
  std::map<User, Jobs>::iterator waiting_user();

  const Duration timeout;
  EventFd done;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable more;
  std::map<User, Jobs> users;  // with jobs, or a helper
  std::size_t helpers = 0;
  std::size_t idle = 0;  // of them
  bool news = false;     // a user's timeout has expired since next_check()
  bool stopping = false;
};

// Time in which the helper only waited for a processor, or the whole daemon didn't run, doesn't
// count (base/time/liveness.h).
void HelperPool::State::update_liveness(const User& user, Jobs& jobs, Time now) {
  const Duration since = std::min(now - jobs.checked, Liveness::kIntervalMax);
  if (!jobs.under_way() || since < kCheckInterval) {
    return;
  }
  const bool before = jobs.held_up > timeout;
  jobs.checked = now;
  if (jobs.has_helper) {
    // Without a descriptor to query the kernel, the helper is assumed to wait.
    jobs.held_up = jobs.liveness.check(
        now, thread_state(jobs.heartbeat.thread()).value_or(ThreadState{.state = 'S'}));
  } else if (idle == 0 || !may_have_helper(user)) {
    jobs.held_up += since;
  }
  news = news || (!before && jobs.held_up > timeout);
}

Status HelperPool::State::check(const User& user) {
  const auto found = users.find(user);
  if (found == users.end()) {
    return ok();
  }
  Jobs& jobs = found->second;
  update_liveness(user, jobs, monotonic_now());
  if (jobs.held_up > timeout) {
    return Error{EBUSY, "the daemon has waited for " +
                            std::to_string(jobs.held_up / kNanosecondsPerSecond) +
                            " s for a descriptor or process of user " + std::to_string(user.uid) +
                            ", and takes no more of this user until that is over"};
  }
  return ok();
}

void HelperPool::State::add(const std::shared_ptr<State>& self, const User& user,
                            std::function<void()> job) {
  users[user].waiting.push_back(std::move(job));
  if (idle == 0) {
    (void)start_one(self);  // otherwise they wait for an idle helper
  }
  more.notify_one();
}

Status HelperPool::State::start_one(const std::shared_ptr<State>& self) {
  if (helpers >= kHelpersMax || stopping) {
    return ok();
  }
  auto started = start_thread("a helper", [self] {
    ::pthread_setname_np(::pthread_self(), "uroce-helper");
    use_all_processors();
    self->serve(self);
  });
  if (!started) {
    return started.error();
  }
  started->detach();
  ++helpers;
  ++idle;
  return ok();
}

// Users of the daemon's own namespace were created by the machine's administrator, and have a group
// each.
bool HelperPool::State::may_have_helper(const User& user) const {
  std::size_t others = 0, own = 0;
  for (const auto& [other, jobs] : users) {
    const bool together = other.user_namespace == user.user_namespace;
    (together ? own : others) += jobs.has_helper ? 1 : 0;
  }
  return user.user_namespace == 0 || own < (kHelpersMax - others) / 2;
}

// A user with jobs and no helper.
std::map<User, HelperPool::State::Jobs>::iterator HelperPool::State::waiting_user() {
  return std::find_if(users.begin(), users.end(), [this](const auto& entry) {
    const auto& [user, jobs] = entry;
    return !jobs.has_helper && !jobs.waiting.empty() && may_have_helper(user);
  });
}

// The last idle one stays: if the machine has no more threads, there is still one helper. Before it
// begins a user's jobs, which may block, it makes sure that there is another.
void HelperPool::State::serve(const std::shared_ptr<State>& self) {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const auto waiting = waiting_user();
    if (waiting == users.end()) {
      const auto wanted = [&] { return stopping || waiting_user() != users.end(); };
      if (!more.wait_for(lock, std::chrono::nanoseconds(kIdleMax), wanted) && idle > 1) {
        break;
      }
      continue;
    }
    --idle;
    waiting->second.has_helper = true;
    if (idle == 0) {
      (void)start_one(self);
    }
    run_jobs(lock, waiting->first, waiting->second);
    ++idle;
  }
  --idle;
  --helpers;
}

// REQUIRES: lock holds the mutex, as it does again afterwards.
void HelperPool::State::run_jobs(std::unique_lock<std::mutex>& lock, const User& user, Jobs& jobs) {
  jobs.heartbeat.begin();
  jobs.held_up = 0;
  while (!jobs.waiting.empty()) {
    std::function<void()> job = std::move(jobs.waiting.front());
    jobs.waiting.pop_front();
    jobs.heartbeat.beat();
    lock.unlock();
    try {
      job();
    } catch (const std::bad_alloc&) {
      // Jobs with a waiter catch exceptions themselves.
    }
    job = nullptr;
    done.ring();
    lock.lock();
    jobs.heartbeat.rest();
    jobs.held_up = 0;
  }
  users.erase(users.find(user));  // which invalidates `user`, too
}

HelperPool::HelperPool(Duration timeout) : state_(std::make_shared<State>(timeout)) {}

HelperPool::~HelperPool() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->more.notify_all();
}

Status HelperPool::start_spare() {
  const std::lock_guard lock(state_->mutex);
  return state_->helpers == 0 ? state_->start_one(state_) : ok();
}

Status HelperPool::run(const User& user, std::function<void()> job) {
  const std::lock_guard lock(state_->mutex);
  if (Status status = state_->check(user); !status) {
    return status;
  }
  const auto found = state_->users.find(user);
  if (found != state_->users.end() && found->second.waiting.size() >= kJobsMax) {
    return Error{EBUSY, "the daemon has " + std::to_string(kJobsMax) + " descriptors of user " +
                            std::to_string(user.uid) +
                            " to look at, and takes no more until it has"};
  }
  state_->add(state_, user, std::move(job));
  return ok();
}

void HelperPool::close(const User& user, UniqueFd descriptor, Charge charge) {
  if (!descriptor.valid()) {
    return;
  }
  struct Owned {
    UniqueFd descriptor;
    Charge charge;
  };
  std::shared_ptr<Owned> owned;
  try {
    // Shared, since std::function requires copying; the number has one owner nevertheless.
    owned = std::make_shared<Owned>();
    owned->charge = std::move(charge);
    owned->descriptor = std::move(descriptor);
    const std::lock_guard lock(state_->mutex);
    state_->add(state_, user, [owned] {
      owned->descriptor.reset();
      owned->charge = Charge();
    });
  } catch (const std::bad_alloc&) {
    // Better to leak one descriptor than to block a thread on a program.
    (void)(owned != nullptr ? owned->descriptor : descriptor).release();
  }
}

int HelperPool::descriptor() const { return state_->done.get(); }

void HelperPool::clear_event() { state_->done.clear(); }

Status HelperPool::check(const User& user) const {
  const std::lock_guard lock(state_->mutex);
  return state_->check(user);
}

Time HelperPool::next_check() const {
  const std::lock_guard lock(state_->mutex);
  const Time now = monotonic_now();
  Time next = kNever;
  for (auto& [user, jobs] : state_->users) {
    state_->update_liveness(user, jobs, now);
    if (jobs.under_way() && jobs.held_up <= state_->timeout) {
      next = std::min(next, jobs.checked + kCheckInterval);
    }
  }
  return std::exchange(state_->news, false) ? now : next;
}

std::size_t HelperPool::threads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->helpers;
}

}  // namespace uroce::control
