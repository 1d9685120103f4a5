#pragma once

// A histogram of durations with four buckets per power of two, small enough to have several per
// queue pair: 832 bytes. A percentile is off by an eighth at most. (`uroce check` has one with four
// times the resolution and six times the size.)

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/prefetch.h"
#include "base/time.h"

namespace uroce {

class LatencyHistogram {
 public:
  // What is shorter or longer isn't told apart: 2^8 ns is about a turn of an idle worker, 2^33 ns
  // are eight seconds. The largest one is remembered exactly.
  static constexpr unsigned kPowerMin = 8;
  static constexpr unsigned kPowerMax = 33;
  // Bounds that others are told of: 2^kReportedMin ns and the powers up to 2^kPowerMax.
  static constexpr unsigned kReportedMin = 10;

  // Returns the bucket that it is counted in.
  std::uint8_t add(Duration value) {
    const std::size_t bucket = bucket_of(value);
    ++buckets_[bucket];
    sum_ += value;
    max_ = std::max(max_, value);
    return static_cast<std::uint8_t>(bucket);
  }
  // Brings what add() touches, if it returns `bucket`, towards the processor.
  void prefetch(std::uint8_t bucket) const {
    prefetch_line_to_write(&buckets_[bucket]);
    prefetch_line_to_write(&sum_);
  }

  LatencyHistogram& operator+=(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      buckets_[i] += other.buckets_[i];
    }
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
    return *this;
  }

  // Bucket by bucket the larger of the two: of a sum that may lack somebody, what was ever in it.
  void keep_most(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      buckets_[i] = std::max(buckets_[i], other.buckets_[i]);
    }
    sum_ = std::max(sum_, other.sum_);
    max_ = std::max(max_, other.max_);
  }

  // What was added since it was as `before`; nothing in buckets that have less now. The largest is
  // not known: it is that of all.
  [[nodiscard]] LatencyHistogram since(const LatencyHistogram& before) const {
    LatencyHistogram added;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      added.buckets_[i] = buckets_[i] - std::min(buckets_[i], before.buckets_[i]);
    }
    added.sum_ = sum_ - std::min(sum_, before.sum_);
    added.max_ = max_;
    return added;
  }

  [[nodiscard]] std::uint64_t count() const { return count_before(kBuckets); }
  [[nodiscard]] Duration sum() const { return sum_; }
  [[nodiscard]] Duration max() const { return max_; }

  // How many took at most 2^power ns. REQUIRES: kPowerMin <= power <= kPowerMax.
  [[nodiscard]] std::uint64_t count_up_to(unsigned power) const {
    return count_before(1 + (std::size_t{power - kPowerMin} << kBits));
  }

  // The middle of the bucket in which the sample is that `permille` of all are not above; 0 without
  // samples.
  [[nodiscard]] Duration percentile(unsigned permille) const {
    constexpr unsigned kAll = 1'000;
    const std::uint64_t all = count();
    const std::uint64_t wanted = all / kAll * permille + (all % kAll * permille + kAll - 1) / kAll;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen != 0 && seen >= wanted) {
        return std::min(middle_of(i), max_);
      }
    }
    return max_;
  }

 private:
  static constexpr unsigned kBits = 2;
  static constexpr std::size_t kBuckets = 2 + ((kPowerMax - kPowerMin) << kBits);

  // A bucket ends with its upper bound, as those of Prometheus do.
  static constexpr std::size_t bucket_of(Duration value) {
    if (value <= Duration{1} << kPowerMin) {
      return 0;
    }
    const auto power = static_cast<unsigned>(std::bit_width(value - 1)) - 1;
    const std::size_t part = (value - 1) >> (power - kBits) & ((1U << kBits) - 1);
    return std::min(1 + (std::size_t{power - kPowerMin} << kBits) + part, kBuckets - 1);
  }
  static constexpr Duration middle_of(std::size_t bucket) {
    if (bucket == 0) {
      return Duration{1} << (kPowerMin - 1);
    }
    const std::size_t shift = kPowerMin - kBits + ((bucket - 1) >> kBits);
    const Duration start = ((bucket - 1) & ((1U << kBits) - 1)) + (1U << kBits);
    return ((2 * start + 1) << shift) / 2;
  }

  [[nodiscard]] std::uint64_t count_before(std::size_t end) const {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < end; ++i) {
      count += buckets_[i];
    }
    return count;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  Duration sum_ = 0;
  Duration max_ = 0;
};
static_assert(sizeof(LatencyHistogram) == 832);

}  // namespace uroce
