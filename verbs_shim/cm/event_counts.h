#pragma once

// How many events of each id and membership of one connection the program has fetched. librdmacm
// frees such an object when as many were acknowledged: the daemon says how many, and after its
// death this does.
//
// The caller locks.

#include <cstdint>
#include <cstdlib>
#include <optional>

namespace uroce::shim {

// By handle, which is a small number.
class EventCounts {
 public:
  EventCounts() = default;
  ~EventCounts() { std::free(counts_); }
  EventCounts(const EventCounts&) = delete;
  EventCounts& operator=(const EventCounts&) = delete;

  // A new object has the handle. Without memory for it its count stays unknown.
  void begin(std::uint32_t handle) {
    if (handle >= size_ && !grow(handle)) {
      return;
    }
    counts_[handle] = 0;
  }
  void add(std::uint32_t handle) {
    if (handle < size_ && counts_[handle] != kUnknown) {
      ++counts_[handle];
    }
  }
  [[nodiscard]] std::optional<std::uint32_t> of(std::uint32_t handle) const {
    return handle < size_ && counts_[handle] != kUnknown ? std::optional(counts_[handle])
                                                         : std::nullopt;
  }

 private:
  static constexpr std::uint32_t kUnknown = 0xFFFF'FFFF;
  static constexpr std::uint32_t kHandlesMax = 1U << 20U;

  bool grow(std::uint32_t handle) {
    if (handle >= kHandlesMax) {
      return false;
    }
    const std::uint32_t wanted = (handle | 63U) * 2;
    void* const grown = std::realloc(counts_, wanted * sizeof(*counts_));
    if (grown == nullptr) {
      return false;
    }
    counts_ = static_cast<std::uint32_t*>(grown);
    for (; size_ < wanted; ++size_) {
      counts_[size_] = kUnknown;
    }
    return true;
  }

  std::uint32_t* counts_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace uroce::shim
