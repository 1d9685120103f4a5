#pragma once

// One daemon's half of the shared memory (shm_records.h): a memfd that only it can write to and
// that can't be shrunk (F_SEAL_FUTURE_WRITE, F_SEAL_SHRINK).

#include <cstddef>
#include <cstdint>

#include "base/page.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/shm/shm_records.h"

namespace uroce {

class ShmMemory {
 public:
  // Offset of the first frame.
  static constexpr std::size_t kFramesOffset = page_ceil(sizeof(ShmRecords));

  // Creates our memory, zeroed.
  static Result<ShmMemory> make(std::uint32_t slots, std::uint32_t stride);
  // The memory that the other daemon passed: EPROTO if it isn't a sealed memfd of this size.
  static Result<ShmMemory> open(UniqueFd descriptor, std::uint32_t slots, std::uint32_t stride);

  ShmMemory(ShmMemory&& other) noexcept;
  ShmMemory& operator=(ShmMemory&&) = delete;
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;
  ~ShmMemory();

  [[nodiscard]] ShmRecords& records() { return *reinterpret_cast<ShmRecords*>(bytes_); }
  [[nodiscard]] const ShmRecords& records() const {
    return *reinterpret_cast<const ShmRecords*>(bytes_);
  }
  // REQUIRES: number < slots().
  [[nodiscard]] std::byte* slot(std::uint32_t number) {
    return bytes_ + kFramesOffset + std::size_t{number} * stride_;
  }
  [[nodiscard]] const std::byte* slot(std::uint32_t number) const {
    return bytes_ + kFramesOffset + std::size_t{number} * stride_;
  }
  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  [[nodiscard]] std::uint32_t stride() const { return stride_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  ShmMemory(UniqueFd descriptor, std::byte* bytes, std::uint32_t slots, std::uint32_t stride)
      : descriptor_(std::move(descriptor)), bytes_(bytes), slots_(slots), stride_(stride) {}
  static std::size_t size_of(std::uint32_t slots, std::uint32_t stride) {
    return kFramesOffset + std::size_t{slots} * stride;
  }

  UniqueFd descriptor_;
  std::byte* bytes_;
  std::uint32_t slots_, stride_;
};

}  // namespace uroce
