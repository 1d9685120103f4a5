#pragma once

// The last changes of a mirror's addresses, numbered in their order. Who looked at some addresses
// notes how many changes there had been, and finds out later whether these have changed since.
//
// Written under the mirror's mutex. Workers read without it; the count tells them whether a change
// was overwritten meanwhile.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace uroce {

class ChangeList {
 public:
  // Enough for those that happen while a program answers a request.
  static constexpr std::size_t kKept = 1'024;

  enum class Kind : std::uint8_t {
    kAny,
    kContents,  // what was stored there is gone: unmapped, or dropped
  };

  // REQUIRES: the mutex.
  void note(Kind kind, std::uint64_t first, std::uint64_t end) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed);
    Change& change = changes_[number % kKept];
    // Release: pairs with touches(). Whoever reads a part of this change then reads `number` or a
    // later count.
    change.kind.store(kind, std::memory_order_release);
    change.first.store(first, std::memory_order_release);
    change.end.store(end, std::memory_order_release);
    // Release: pairs with count(), whose caller may read the change then.
    count_.store(number + 1, std::memory_order_release);
  }

  // How many there have been.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_acquire); }

  // Whether one of this kind, since count() was `since`, touches [first, end). Also true when that
  // is too long ago to know.
  [[nodiscard]] bool touches(Kind kind, std::uint64_t since, std::uint64_t first,
                             std::uint64_t end) const {
    const std::uint64_t now = count();
    bool touched = now - since > kKept;
    for (std::uint64_t number = since; !touched && number < now; ++number) {
      const Change& change = changes_[number % kKept];
      touched = first < change.end.load(std::memory_order_acquire) &&
                change.first.load(std::memory_order_acquire) < end &&
                (kind == Kind::kAny || change.kind.load(std::memory_order_acquire) == kind);
    }
    // One that isn't counted yet may have been written where the oldest was.
    return touched || count_.load(std::memory_order_relaxed) - since >= kKept;
  }

 private:
  struct Change {
    std::atomic<std::uint64_t> first{0}, end{0};
    std::atomic<Kind> kind{Kind::kAny};
  };
  std::array<Change, kKept> changes_{};  // number n lies at n % kKept
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace uroce
