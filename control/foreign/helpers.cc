#include "control/foreign/helpers.h"

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

constexpr Duration kLookInterval = 100 * kNanosecondsPerMillisecond;

}  // namespace

struct Helpers::State {
  struct Errands {
    [[nodiscard]] bool under_way() const { return has_helper || !waiting.empty(); }

    std::deque<std::function<void()>> waiting;
    bool has_helper = false;
    Heartbeat heartbeat;  // the helper's, a beat for each errand
    Liveness liveness{heartbeat};
    Time looked = monotonic_now();
    Duration held_up = 0;  // as of then, by this errand or the want of a helper
  };

  explicit State(Duration how_long) : patience(how_long) {}

  void look(const User& user, Errands& errands, Time now);
  Status check(const User& user);
  void add(const std::shared_ptr<State>& self, const User& user, std::function<void()> errand);
  Status start_one(const std::shared_ptr<State>& self);
  void serve(const std::shared_ptr<State>& self);
  void run_errands(std::unique_lock<std::mutex>& lock, const User& user, Errands& errands);
  [[nodiscard]] bool may_have_helper(const User& user) const;
  std::map<User, Errands>::iterator waiting_user();

  const Duration patience;
  EventFd done;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable more;
  std::map<User, Errands> users;  // with errands, or a helper
  std::size_t helpers = 0;
  std::size_t idle = 0;  // of them
  bool news = false;     // somebody's patience has ended since next_look()
  bool stopping = false;
};

// Time in which the helper only wanted a processor, or the whole daemon didn't run, doesn't count
// (base/time/liveness.h).
void Helpers::State::look(const User& user, Errands& errands, Time now) {
  const Duration since = std::min(now - errands.looked, Liveness::kLookMax);
  if (!errands.under_way() || since < kLookInterval) {
    return;
  }
  const bool before = errands.held_up > patience;
  errands.looked = now;
  if (errands.has_helper) {
    // Without a descriptor to ask the kernel with it is taken for one that waits.
    errands.held_up = errands.liveness.look(
        now, thread_state(errands.heartbeat.thread()).value_or(ThreadState{.state = 'S'}));
  } else if (idle == 0 || !may_have_helper(user)) {
    errands.held_up += since;
  }
  news = news || (!before && errands.held_up > patience);
}

Status Helpers::State::check(const User& user) {
  const auto found = users.find(user);
  if (found == users.end()) {
    return ok();
  }
  Errands& errands = found->second;
  look(user, errands, monotonic_now());
  if (errands.held_up > patience) {
    return Error{EBUSY, "the daemon has waited for " +
                            std::to_string(errands.held_up / kNanosecondsPerSecond) +
                            " s for a descriptor or process of user " + std::to_string(user.uid) +
                            ", and takes no more of this user until that is over"};
  }
  return ok();
}

void Helpers::State::add(const std::shared_ptr<State>& self, const User& user,
                         std::function<void()> errand) {
  users[user].waiting.push_back(std::move(errand));
  if (idle == 0) {
    (void)start_one(self);  // else they wait for one that has time
  }
  more.notify_one();
}

Status Helpers::State::start_one(const std::shared_ptr<State>& self) {
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

// Users of the daemon's own namespace are whom the machine's administrator made, and have one each.
bool Helpers::State::may_have_helper(const User& user) const {
  std::size_t others = 0, own = 0;
  for (const auto& [other, errands] : users) {
    const bool together = other.user_namespace == user.user_namespace;
    (together ? own : others) += errands.has_helper ? 1 : 0;
  }
  return user.user_namespace == 0 || own < (kHelpersMax - others) / 2;
}

// One with errands that no helper is at.
std::map<User, Helpers::State::Errands>::iterator Helpers::State::waiting_user() {
  return std::find_if(users.begin(), users.end(), [this](const auto& entry) {
    const auto& [user, errands] = entry;
    return !errands.has_helper && !errands.waiting.empty() && may_have_helper(user);
  });
}

// The last idle one stays: when the machine has no thread left, there is still one helper. Before
// it takes to a user's errands, which may last, it sees to another.
void Helpers::State::serve(const std::shared_ptr<State>& self) {
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
    run_errands(lock, waiting->first, waiting->second);
    ++idle;
  }
  --idle;
  --helpers;
}

// REQUIRES: lock holds the mutex. It does so again afterwards.
void Helpers::State::run_errands(std::unique_lock<std::mutex>& lock, const User& user,
                                 Errands& errands) {
  errands.heartbeat.begin();
  errands.held_up = 0;
  while (!errands.waiting.empty()) {
    std::function<void()> errand = std::move(errands.waiting.front());
    errands.waiting.pop_front();
    errands.heartbeat.beat();
    lock.unlock();
    try {
      errand();
    } catch (const std::bad_alloc&) {
      // Errands that somebody waits for catch it themselves.
    }
    errand = nullptr;
    done.ring();
    lock.lock();
    errands.heartbeat.rest();
    errands.held_up = 0;
  }
  users.erase(users.find(user));  // which ends `user`, too
}

Helpers::Helpers(Duration patience) : state_(std::make_shared<State>(patience)) {}

Helpers::~Helpers() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->more.notify_all();
}

Status Helpers::start_spare() {
  const std::lock_guard lock(state_->mutex);
  return state_->helpers == 0 ? state_->start_one(state_) : ok();
}

Status Helpers::run(const User& user, std::function<void()> errand) {
  const std::lock_guard lock(state_->mutex);
  if (Status status = state_->check(user); !status) {
    return status;
  }
  const auto found = state_->users.find(user);
  if (found != state_->users.end() && found->second.waiting.size() >= kErrandsMax) {
    return Error{EBUSY, "the daemon has " + std::to_string(kErrandsMax) + " descriptors of user " +
                            std::to_string(user.uid) +
                            " to look at, and takes no more until it has"};
  }
  state_->add(state_, user, std::move(errand));
  return ok();
}

void Helpers::close(const User& user, UniqueFd descriptor) {
  if (!descriptor.valid()) {
    return;
  }
  std::shared_ptr<UniqueFd> owned;
  try {
    // Shared, since std::function wants to copy it; the number has one owner all the same.
    owned = std::make_shared<UniqueFd>();
    *owned = std::move(descriptor);
    const std::lock_guard lock(state_->mutex);
    state_->add(state_, user, [owned] { owned->reset(); });
  } catch (const std::bad_alloc&) {
    // Rather one descriptor less than a thread that waits for a program.
    static_cast<void>((owned != nullptr ? *owned : descriptor).release());
  }
}

int Helpers::descriptor() const { return state_->done.get(); }

void Helpers::quieten() { state_->done.quieten(); }

Status Helpers::check(const User& user) const {
  const std::lock_guard lock(state_->mutex);
  return state_->check(user);
}

Time Helpers::next_look() const {
  const std::lock_guard lock(state_->mutex);
  const Time now = monotonic_now();
  Time next = kNever;
  for (auto& [user, errands] : state_->users) {
    state_->look(user, errands, now);
    if (errands.under_way() && errands.held_up <= state_->patience) {
      next = std::min(next, errands.looked + kLookInterval);
    }
  }
  return std::exchange(state_->news, false) ? now : next;
}

std::size_t Helpers::threads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->helpers;
}

}  // namespace uroce::control
