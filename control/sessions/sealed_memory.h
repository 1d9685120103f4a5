#pragma once

// Memory that the daemon shares with a program: a memfd, mapped here and sealed so that the program
// can neither shrink it under us (which would be a SIGBUS) nor grow it.

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/system_error.h"
#include "base/unique_fd.h"
#include "shares/account.h"

namespace uroce::control {

class SealedMemory {
 public:
  // kBothUntilSealed: once it has its own mapping, the program may forbid further writable mappings
  // and hole punching with F_SEAL_FUTURE_WRITE.
  enum class Writers : std::uint8_t { kBoth, kBothUntilSealed, kDaemonOnly };

  // Memory up to this size is populated at once, at two microseconds a page at most: a page fault
  // takes ten times as long in a virtual machine, and would delay the worker.
  static constexpr std::size_t kPopulatedMax = std::size_t{64} << 10U;

  // Zeroed memory of `length` bytes, rounded up to whole pages. With kDaemonOnly programs can map
  // it only for reading.
  static Result<SealedMemory> create(const char* name, std::size_t length,
                                     Writers writers = Writers::kBoth);
  // The same, charging a mapping and its pages to `account` as long as it exists. ENOMEM: beyond
  // the limits.
  static Result<SealedMemory> create(const char* name, std::size_t length, Account& account);

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  ~SealedMemory();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t length() const { return length_; }

  // Populates all of it, as an optimisation; does nothing if the kernel can't.
  void populate() const;

  // The descriptor, to be sent; the mapping stays. copy_descriptor() keeps the original.
  UniqueFd take_descriptor() { return std::move(descriptor_); }
  [[nodiscard]] Result<UniqueFd> copy_descriptor() const;

 private:
  UniqueFd descriptor_;
  std::byte* data_ = nullptr;
  std::size_t length_ = 0;
  Charge charge_;
};

}  // namespace uroce::control
