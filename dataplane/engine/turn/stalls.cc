#include "dataplane/engine/turn/stalls.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/time/monotonic_clock.h"

namespace uroce {

Stalls::Usage Stalls::thread_usage() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {.now = monotonic_now(),
          .waits = static_cast<std::uint64_t>(usage.ru_nvcsw),
          .faults = static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt)};
}

void Stalls::charge_to(std::uint64_t user) {
  if (serving_ && user == user_) {
    return;
  }
  const Usage usage = read_usage_();
  if (serving_) {
    end_step(usage);
  }
  serving_ = true;
  user_ = user;
  begin_ = usage;
}

void Stalls::turn_ends() {
  if (serving_) {
    end_step(read_usage_());
    serving_ = false;
  }
}

// Time in which others had the processor isn't charged to the user: the thread didn't wait then.
// Nor is time in which the process was stopped: it waited, but not for a page.
void Stalls::end_step(const Usage& usage) {
  const Duration took = usage.now - begin_.now;
  if (took >= kMin && usage.waits != begin_.waits && usage.faults != begin_.faults) {
    ++count_;
    total_ += took;
    if (user_ != kNoUser) {
      charge(usage.now, took);
    }
  }
}

void Stalls::charge(Time now, Duration took) {
  const auto end = debts_.begin() + static_cast<std::ptrdiff_t>(debtors_);
  auto debt =
      std::find_if(debts_.begin(), end, [this](const Debt& one) { return one.user == user_; });
  if (debt == end && debtors_ < kUsersMax) {
    ++debtors_;
  } else if (debt == end) {
    debt = std::min_element(debts_.begin(), end, [now](const Debt& one, const Debt& other) {
      return one.left(now) < other.left(now);
    });
    *debt = {};
  }
  const Duration owed = std::min(debt->left(now) + took, kDebtMax);
  *debt = {.user = user_, .owed = owed, .since = now};
  watched_until_ = std::max(watched_until_, now + kWatched);
}

Duration Stalls::debt_of(std::uint64_t user, Time now) const {
  const auto end = debts_.begin() + static_cast<std::ptrdiff_t>(debtors_);
  const auto debt =
      std::find_if(debts_.begin(), end, [user](const Debt& one) { return one.user == user; });
  return debt == end ? 0 : debt->left(now);
}

}  // namespace uroce
