#pragma once

// Where the bytes of a payload lie, run by run, while they are still where a program has them.

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

  // Has the last `length` bytes in runs of their own: what is copied run by run is then visible to
  // whoever watches the last byte only when all before is. REQUIRES: there are more bytes.
  [[nodiscard]] bool set_apart(std::uint32_t length);

  [[nodiscard]] std::span<const ByteRun> all() const { return {runs_.data(), count_}; }

 private:
  std::array<ByteRun, kMax> runs_;
  std::size_t count_ = 0;
};

}  // namespace uroce
