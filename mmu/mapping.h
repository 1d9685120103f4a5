#pragma once

// Mappings of files into the daemon. Each is charged to the program's user.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "shares/account.h"

namespace uroce {

// One MAP_SHARED mapping of whole pages. Made by the control thread; unmapped with its last owner,
// on whatever thread.
class Mapping {
 public:
  // Maps [offset, offset + length) of the file, rounded outwards to `page_size`.
  static Result<std::shared_ptr<const Mapping>> make(int descriptor, std::uint64_t page_size,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     bool writable, Account& account);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] bool covers(std::uint64_t offset, std::uint64_t length) const {
    return offset >= offset_ && offset - offset_ <= length_ &&
           length <= length_ - (offset - offset_);
  }
  // REQUIRES: covers(offset, ...).
  [[nodiscard]] std::byte* at(std::uint64_t offset) const { return host_ + (offset - offset_); }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  Mapping() = default;
  std::byte* host_ = nullptr;
  std::uint64_t offset_ = 0;  // in the file
  std::uint64_t length_ = 0;
  Charge charge_;
};

// The mappings of one arena. Registering a buffer again finds the old mapping, and giving a region
// back doesn't unmap: both would otherwise cost system calls and page faults each time. Mappings
// that no region uses are dropped when they have become as many as those in use.
class MappingCache {
 public:
  MappingCache(int descriptor, std::uint64_t page_size, std::shared_ptr<Account> account);

  Result<std::shared_ptr<const Mapping>> map(std::uint64_t offset, std::uint64_t length);

 private:
  void drop_unused();

  static constexpr std::size_t kUnusedMin = 1024;  // kept without a look
  int descriptor_;
  std::uint64_t page_size_;
  std::shared_ptr<Account> account_;
  std::map<std::uint64_t, std::shared_ptr<const Mapping>> by_offset_;
  std::size_t sweep_at_ = kUnusedMin;
};

}  // namespace uroce
