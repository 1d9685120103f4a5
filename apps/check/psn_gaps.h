#pragma once

// The gaps in a sequence of PSNs: packets that a later one showed to be missing. At most kMax at a
// time; beyond that the oldest ones are dropped, and counted.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace uroce::check {

// An unwrapped PSN: counts on from the first one that was seen.
using Position = std::int64_t;

struct Gap {
  Position from = 0, to = 0;  // [from, to)
  std::uint64_t frame = 0;    // that showed it
  Time since = 0;
  bool spoken_of = false;  // a NAK came since
};

class PsnGaps {
 public:
  static constexpr std::size_t kMax = 256;

  // REQUIRES: it lies behind all existing gaps, or between them.
  void add(Gap gap) {
    if (gaps_.size() == kMax) {
      gaps_.erase(gaps_.begin());
      ++forgotten_;
    }
    gaps_.insert(first_behind(gap.from), gap);
  }

  [[nodiscard]] bool empty() const { return gaps_.empty(); }
  [[nodiscard]] const std::vector<Gap>& all() const { return gaps_; }
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

  [[nodiscard]] bool contains(Position at) const { return place_of(at) != gaps_.end(); }

  // The gap that contains `at`; [at, at + count) is removed from it, which may split it.
  std::optional<Gap> fill(Position at, Position count) {
    const auto place = place_of(at);
    if (place == gaps_.end()) {
      return std::nullopt;
    }
    const Gap whole = *place;
    Gap behind = whole;
    behind.from = std::min(whole.to, at + count);
    auto next = gaps_.erase(place);
    if (behind.from < behind.to) {
      next = gaps_.insert(next, behind);
    }
    if (whole.from < at) {
      Gap before = whole;
      before.to = at;
      gaps_.insert(next, before);
    }
    return whole;
  }

  // Drops everything before `end`; returns the first gap dropped.
  std::optional<Gap> drop_before(Position end) {
    std::optional<Gap> first;
    while (!gaps_.empty() && gaps_.front().from < end) {
      first = first ? first : gaps_.front();
      if (gaps_.front().to > end) {
        gaps_.front().from = end;
        break;
      }
      gaps_.erase(gaps_.begin());
    }
    return first;
  }

  void note_word() {
    for (Gap& gap : gaps_) {
      gap.spoken_of = true;
    }
  }

  void clear() { gaps_.clear(); }

 private:
  using Gaps = std::vector<Gap>;
  [[nodiscard]] Gaps::const_iterator place_of(Position at) const {
    return std::find_if(gaps_.begin(), gaps_.end(),
                        [&](const Gap& gap) { return gap.from <= at && at < gap.to; });
  }
  [[nodiscard]] Gaps::const_iterator first_behind(Position at) const {
    return std::find_if(gaps_.begin(), gaps_.end(), [&](const Gap& gap) { return gap.from > at; });
  }

  Gaps gaps_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace uroce::check
