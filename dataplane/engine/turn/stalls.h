#pragma once

// Accounts for the time in which a user's memory blocks the worker in the kernel, and penalises
// that user.
//
// A copy can take a page fault that the kernel delays arbitrarily: a hole that the program is
// punching at the same time (shmem waits until it is done), a page on a slow disk. Such a wait can
// neither be interrupted nor predicted. So the user pays afterwards, with time: for kShare times
// what its memory took beyond kAllowance, its queue pairs are parked as for a page fault, so that
// all others have all but 1/kShare of the worker.
//
// Measuring costs two system calls per user and turn. It is done only for kWatched after a turn
// that was late by kNoticed; the first such wait is charged to nobody.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce {

class Stalls {
 public:
  static constexpr Duration kNoticed = 50 * kNanosecondsPerMillisecond;
  static constexpr Duration kWatched = 64 * kNanosecondsPerSecond;
  // Shorter waits can't be distinguished from the ordinary noise of a busy machine.
  static constexpr Duration kMin = 5 * kNanosecondsPerMillisecond;
  static constexpr Duration kAllowance = 100 * kNanosecondsPerMillisecond;
  static constexpr Duration kDebtMax = 2 * kNanosecondsPerSecond;
  static constexpr std::uint64_t kShare = 32;
  // Users in debt at the same time; a further one replaces the one that owes least.
  static constexpr std::size_t kUsersMax = 16;
  static_assert(kDebtMax * kShare <= kWatched, "who is in debt is watched");

  // The user to which work for nobody in particular is charged: never in debt.
  static constexpr std::uint64_t kNoUser = ~std::uint64_t{0};

  struct Usage {
    Time now = 0;
    // Of this thread so far: voluntary context switches (waits in the kernel) and page faults.
    std::uint64_t waits = 0;
    std::uint64_t faults = 0;
  };
  using UsageReader = Usage (*)();
  static Usage thread_usage();

  explicit Stalls(UsageReader read_usage = thread_usage) : read_usage_(read_usage) {}

  // The thread was kept from running for `away` before the turn that begins.
  void was_descheduled(Time now, Duration away) {
    watched_until_ = away >= kNoticed ? now + kWatched : watched_until_;
  }
  [[nodiscard]] bool watches(Time now) const { return now < watched_until_; }

  // From here on the worker's time is charged to `user`, until the next call or the end of the
  // turn.
  void charge_to(std::uint64_t user);
  void turn_ends();

  // Whether the user's queue pairs are held back because of its debt. Only measured users can be in
  // debt.
  [[nodiscard]] bool refuses(std::uint64_t user, Time now) const {
    return watches(now) && debt_of(user, now) > kAllowance;
  }
  // The number of stalls of at least kMin, and their total duration.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Duration total() const { return total_; }

 private:
  struct Debt {
    std::uint64_t user = 0;
    Duration owed = 0;  // at `since`; paid back by 1/kShare of the time that passes
    Time since = 0;
    [[nodiscard]] Duration left(Time now) const {
      const Duration paid = now > since ? (now - since) / kShare : 0;
      return owed > paid ? owed - paid : 0;
    }
  };

  [[nodiscard]] Duration debt_of(std::uint64_t user, Time now) const;
  void end_step(const Usage& usage);
  void charge(Time now, Duration took);

  UsageReader read_usage_;
  Time watched_until_ = 0;
  bool serving_ = false;
  std::uint64_t user_ = 0;
  Usage begin_;
  std::array<Debt, kUsersMax> debts_{};
  std::size_t debtors_ = 0;
  std::uint64_t count_ = 0;
  Duration total_ = 0;
};

}  // namespace uroce
