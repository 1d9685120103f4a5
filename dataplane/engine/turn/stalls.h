#pragma once

// Whose memory keeps the worker waiting in the kernel, and what that user gets for it.
//
// A copy is a page fault at worst, which the kernel may let wait: a hole that its program punches
// just then (shmem waits until all of it is there), a page on a slow disk. Nothing ends such a
// wait, and nothing tells of it beforehand. So a user pays for it afterwards, with time: what his
// memory took beyond kAllowance is taken from him in kShare-fold, in which his queue pairs park
// as for a page fault, so that everybody else has all but 1/kShare of the worker.
//
// Looking costs two calls a user and turn. That is done only for kWatched after a turn that was
// late by kNoticed; the first such wait is nobody's.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce {

class Stalls {
 public:
  static constexpr Duration kNoticed = 50 * kNanosecondsPerMillisecond;
  static constexpr Duration kWatched = 64 * kNanosecondsPerSecond;
  // Shorter ones aren't told from what a busy machine does.
  static constexpr Duration kMin = 5 * kNanosecondsPerMillisecond;
  static constexpr Duration kAllowance = 100 * kNanosecondsPerMillisecond;
  static constexpr Duration kDebtMax = 2 * kNanosecondsPerSecond;
  static constexpr std::uint64_t kShare = 32;
  // In debt at the same time; a further one takes the place of who owes least.
  static constexpr std::size_t kUsersMax = 16;
  static_assert(kDebtMax * kShare <= kWatched, "who is in debt is watched");

  // Whom what isn't done for one user is done for: he owes nothing.
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  struct Look {
    Time now = 0;
    // Of this thread, so far: how often it waited in the kernel (voluntary context switches), and
    // its page faults.
    std::uint64_t waits = 0;
    std::uint64_t faults = 0;
  };
  using Looker = Look (*)();
  static Look look_at_thread();

  explicit Stalls(Looker looker = look_at_thread) : looker_(looker) {}

  // The thread was kept from running for `away` before the turn that begins.
  void was_away(Time now, Duration away) {
    watched_until_ = away >= kNoticed ? now + kWatched : watched_until_;
  }
  [[nodiscard]] bool watches(Time now) const { return now < watched_until_; }

  // What the worker does from here on is for `user`, until the next one or the end of the turn.
  void serves(std::uint64_t user);
  void turn_ends();

  // Whether the user waits for having kept others waiting. Nobody is in debt who isn't watched.
  [[nodiscard]] bool refuses(std::uint64_t user, Time now) const {
    return watches(now) && debt_of(user, now) > kAllowance;
  }
  // How many steps took kMin or more, and how long all in all.
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
  void end_step(const Look& look);
  void charge(Time now, Duration took);

  Looker looker_;
  Time watched_until_ = 0;
  bool serving_ = false;
  std::uint64_t user_ = 0;
  Look begin_;
  std::array<Debt, kUsersMax> debts_{};
  std::size_t debtors_ = 0;
  std::uint64_t count_ = 0;
  Duration total_ = 0;
};

}  // namespace uroce
