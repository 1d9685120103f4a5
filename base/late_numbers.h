#pragma once

// Small numbers, counted from 0, of which one that is given back is reused late: after all that
// were given back before it, and not while few are free, so that a stale one isn't taken for a new
// one at once. To give one back needs no memory, so that it can be done wherever something ends.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace uroce {

class LateNumbers {
 public:
  static constexpr std::uint32_t kQuarantine = 16;  // free ones that aren't reused yet

  // So many numbers; where all of them are known, free ones are reused at once.
  explicit LateNumbers(std::uint32_t count_max = std::numeric_limits<std::uint32_t>::max())
      : count_max_(count_max) {}

  // All are taken.
  [[nodiscard]] bool empty() const { return free_ == 0 && end() == count_max_; }
  // No number that was ever taken is as high.
  [[nodiscard]] std::uint32_t end() const { return static_cast<std::uint32_t>(next_.size()); }

  // Where it throws for want of memory, nothing has changed. REQUIRES: not empty()
  std::uint32_t take() {
    if (!reuses()) {
      make_room();
      next_.push_back(0);
      return end() - 1;
    }
    const std::uint32_t number = oldest_;
    oldest_ = next_[number];
    --free_;
    return number;
  }
  // After it the next take() doesn't throw.
  void make_room() {
    if (!reuses() && next_.size() == next_.capacity()) {
      next_.reserve(std::max(kRoomMin, 2 * next_.size()));
    }
  }
  // So many numbers have room, without another make_room().
  [[nodiscard]] std::size_t capacity() const { return next_.capacity(); }
  // REQUIRES: it is taken.
  void give_back(std::uint32_t number) noexcept {
    (free_ == 0 ? oldest_ : next_[newest_]) = number;
    newest_ = number;
    ++free_;
  }

 private:
  static constexpr std::size_t kRoomMin = 8;

  [[nodiscard]] bool reuses() const {
    return free_ > kQuarantine || (free_ != 0 && end() == count_max_);
  }

  std::uint32_t count_max_;
  std::vector<std::uint32_t> next_;  // of a free number: the one that was given back after it
  std::uint32_t free_ = 0;
  std::uint32_t oldest_ = 0, newest_ = 0;  // of the free ones, if there are any
};

}  // namespace uroce
