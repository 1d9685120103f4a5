#pragma once

// Mappings of files into the daemon. Each is charged to the program's user.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/page.h"
#include "base/result.h"
#include "shares/account.h"

namespace uroce {

// The work on pages that one command may have the kernel do while other programs wait, in bytes
// that are left of it.
struct MappingBudget {
  // Some 4 ms. Further pages are populated by page faults.
  static constexpr std::uint64_t kPopulateMax = 16ULL << 20U;
  // Some 40 ms; only needed if the user is at its limit and some of its mappings are queued for
  // unmapping.
  static constexpr std::uint64_t kUnmapMax = 1ULL << 30U;

  std::uint64_t populate = kPopulateMax;
  std::uint64_t unmap = kUnmapMax;
};

// One MAP_SHARED mapping of whole pages. Made by the control thread. When its last owner is gone,
// on whatever thread, it is passed to the unmapper (mmu/pinned/unmapper.h) unless it is small.
class Mapping {
 public:
  // A part of a file, rounded outwards to `page_size`.
  struct Wanted {
    int descriptor = -1;
    std::uint64_t page_size = kPage;
    std::uint64_t offset = 0, length = 0;
    bool writable = true;
  };
  static Result<std::shared_ptr<const Mapping>> make(const Wanted& wanted, Account& account,
                                                     MappingBudget* work);
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
  friend class Unmapper;

  Mapping() = default;
  static void release(Mapping* mapping);
  void populate(bool writable, MappingBudget* work) const;

  std::byte* host_ = nullptr;
  std::uint64_t offset_ = 0;  // in the file
  std::uint64_t length_ = 0;
  std::uint64_t page_size_ = 0;
  std::uint64_t account_ = 0;  // its number
  Charge charge_;
  Mapping* next_ = nullptr;  // the unmapper's
};

// A cache of the mappings of one arena. Registering a buffer again finds the old mapping, and
// deregistering doesn't unmap: both would cost system calls and page faults each time. Unused
// mappings are dropped when there are as many as used ones.
class MappingCache {
 public:
  MappingCache(int descriptor, std::uint64_t page_size, std::shared_ptr<Account> account);

  Result<std::shared_ptr<const Mapping>> map(std::uint64_t offset, std::uint64_t length,
                                             MappingBudget* work);

 private:
  void drop_unused();

  static constexpr std::size_t kUnusedMin = 1024;  // kept unconditionally
  int descriptor_;
  std::uint64_t page_size_;
  std::shared_ptr<Account> account_;
  std::map<std::uint64_t, std::shared_ptr<const Mapping>> by_offset_;
  std::size_t sweep_at_ = kUnusedMin;
};

}  // namespace uroce
