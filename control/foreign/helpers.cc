#include "control/foreign/helpers.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/all_processors.h"
#include "base/event_fd.h"
#include "base/monotonic_clock.h"

namespace uroce::control {

struct Helpers::State {
  struct Errands {
    std::deque<std::function<void()>> waiting;
    bool has_helper = false;
    Time busy_since = 0;  // 0: it waits for errands
  };

  explicit State(Duration how_long) : patience(how_long) {}

  Status check(const User& user) const;
  void add(const std::shared_ptr<State>& self, const User& user, std::function<void()> errand);
  void start_one(const std::shared_ptr<State>& self);
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
  bool stopping = false;
};

Status Helpers::State::check(const User& user) const {
  const auto found = users.find(user);
  if (found == users.end()) {
    return ok();
  }
  const Errands& errands = found->second;
  const Time now = monotonic_now();
  if (errands.busy_since != 0 && now - errands.busy_since > patience) {
    return Error{EBUSY, "the daemon has waited for " +
                            std::to_string((now - errands.busy_since) / kNanosecondsPerSecond) +
                            " s for a descriptor or process of user " + std::to_string(user.uid) +
                            ", and takes no more of this user until that is over"};
  }
  if (errands.waiting.size() >= kErrandsMax) {
    return Error{EBUSY, "the daemon has " + std::to_string(kErrandsMax) + " descriptors of user " +
                            std::to_string(user.uid) +
                            " to look at, and takes no more until it has"};
  }
  return ok();
}

void Helpers::State::add(const std::shared_ptr<State>& self, const User& user,
                         std::function<void()> errand) {
  users[user].waiting.push_back(std::move(errand));
  if (idle == 0) {
    start_one(self);
  }
  more.notify_one();
}

// Where no thread is to be had the errands wait for one that has time.
void Helpers::State::start_one(const std::shared_ptr<State>& self) {
  if (helpers >= kHelpersMax || stopping) {
    return;
  }
  try {
    std::thread([self] {
      ::pthread_setname_np(::pthread_self(), "uroce-helper");
      use_all_processors();
      self->serve(self);
    }).detach();
    ++helpers;
    ++idle;
  } catch (const std::system_error&) {
  }
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
      start_one(self);
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
  while (!errands.waiting.empty()) {
    std::function<void()> errand = std::move(errands.waiting.front());
    errands.waiting.pop_front();
    errands.busy_since = monotonic_now();
    lock.unlock();
    errand();
    errand = nullptr;
    done.ring();
    lock.lock();
    errands.busy_since = 0;
  }
  users.erase(users.find(user));  // which ends `user`, too
}

Helpers::Helpers(Duration patience) : state_(std::make_shared<State>(patience)) {}

Helpers::~Helpers() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->more.notify_all();
}

Status Helpers::run(const User& user, std::function<void()> errand) {
  const std::lock_guard lock(state_->mutex);
  if (Status status = state_->check(user); !status) {
    return status;
  }
  state_->add(state_, user, std::move(errand));
  return ok();
}

void Helpers::close(const User& user, UniqueFd descriptor) {
  if (!descriptor.valid()) {
    return;
  }
  // Copied, since std::function wants it; the number has one owner all the same.
  auto owned = std::make_shared<UniqueFd>(std::move(descriptor));
  const std::lock_guard lock(state_->mutex);
  state_->add(state_, user, [owned = std::move(owned)] { owned->reset(); });
}

int Helpers::descriptor() const { return state_->done.get(); }

void Helpers::quieten() { state_->done.quieten(); }

Status Helpers::check(const User& user) const {
  const std::lock_guard lock(state_->mutex);
  return state_->check(user);
}

Time Helpers::next_overdue() const {
  const std::lock_guard lock(state_->mutex);
  const Time now = monotonic_now();
  Time next = kNever;
  for (const auto& [user, errands] : state_->users) {
    const Time since = errands.busy_since != 0 ? errands.busy_since : now;
    const bool expected = errands.busy_since != 0 || !errands.waiting.empty();
    if (expected && now - since <= state_->patience) {
      next = std::min(next, since + state_->patience + 1);
    }
  }
  return next;
}

std::size_t Helpers::threads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->helpers;
}

}  // namespace uroce::control
