#pragma once

// Durations counted in fixed buckets, sixteen for each power of two: a percentile is off by a
// sixteenth at most (HdrHistogram's idea). A sample costs a few instructions and no memory.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace uroce::check {

class Histogram {
 public:
  void add(Duration value) {
    ++buckets_[bucket_of(value)];
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] Duration sum() const { return sum_; }
  [[nodiscard]] Duration max() const { return max_; }

  // The upper end of the bucket in which the sample is that `part` (0 to 1) of all are not above;
  // 0 without samples.
  [[nodiscard]] Duration percentile(double part) const {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count_) + 0.999'999);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen != 0 && seen >= wanted) {
        return std::min(end_of(i), max_);
      }
    }
    return max_;
  }

 private:
  static constexpr unsigned kBits = 4;
  static constexpr unsigned kPowersMax = 44;  // up to 2^44 ns, five hours; longer counts as that
  static constexpr std::size_t kBuckets = (kPowersMax - kBits + 1) << kBits;

  static constexpr std::size_t bucket_of(Duration value) {
    if (value < (1U << kBits)) {
      return static_cast<std::size_t>(value);
    }
    const auto power = static_cast<unsigned>(std::bit_width(value)) - 1;
    const std::size_t bucket = ((power - kBits + 1) << kBits) + ((value >> (power - kBits)) & 15U);
    return std::min(bucket, kBuckets - 1);
  }
  // The largest value of a bucket.
  static constexpr Duration end_of(std::size_t bucket) {
    if (bucket < (1U << kBits)) {
      return bucket;
    }
    const std::size_t shift = (bucket >> kBits) - 1;
    return (((bucket & 15U) + 17) << shift) - 1;
  }

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Duration sum_ = 0;
  Duration max_ = 0;
};

}  // namespace uroce::check
