#pragma once

// Detects sequential access by successive page faults and says what to populate ahead, like the
// read-ahead of file systems. Owned by the fault thread.

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce {

class Mirror;

class ReadAhead {
 public:
  static constexpr std::size_t kStreams = 64;  // that are remembered; the oldest goes first
  static constexpr std::uint64_t kWindowMin = 256ULL << 10U;  // bytes populated ahead at first
  static constexpr std::uint64_t kWindowMax = 2ULL << 20U;    // doubled up to this
  // Tolerated reordering between queue pairs: a fault this far back still continues the stream.
  static constexpr std::uint64_t kBack = 256ULL << 10U;

  struct Range {
    std::uint64_t first = 0, end = 0;
    [[nodiscard]] bool empty() const { return first >= end; }
  };

  // A fault needed [first, end) of a mirror, for reading or writing. What is to be populated after
  // that, below `limit`; nothing if it follows no other fault.
  Range follow(const Mirror* mirror, bool write, const Range& needed, std::uint64_t limit);

 private:
  struct Stream {
    const Mirror* mirror = nullptr;  // only compared
    bool write = false;
    std::uint64_t next = 0;     // where the next fault is expected
    std::uint64_t brought = 0;  // the end of what was returned to populate
    std::uint64_t window = 0;
    std::uint64_t used = 0;  // when, in faults
  };

  std::array<Stream, kStreams> streams_{};
  std::uint64_t faults_ = 0;
};

}  // namespace uroce
