#pragma once

// A payload as a list of contiguous runs in programs' memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/qp/direct/request.h"

namespace uroce {

class ByteRuns {
 public:
  static constexpr std::size_t kMax = 32;

  // False: there are too many.
  bool add(const std::byte* start, std::uint32_t length) {
    if (count_ == kMax) {
      return false;
    }
    runs_[count_++] = {start, length};
    return true;
  }

  // Splits off the last `length` bytes into runs of their own: when the runs are copied in order, a
  // program that watches the last byte sees it only after all the others. REQUIRES: there are more
  // bytes.
  [[nodiscard]] bool set_apart(std::uint32_t length);

  [[nodiscard]] std::span<const ByteRun> all() const { return {runs_.data(), count_}; }

 private:
  std::array<ByteRun, kMax> runs_;
  std::size_t count_ = 0;
};

}  // namespace uroce
