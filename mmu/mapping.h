#pragma once

// Mappings of files into the daemon, and how many there may be.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"

namespace uroce {

// How much of the daemon's address space one program takes, and may take. Shared by all that
// belongs to it, because regions outlive the session that made them. The kernel bounds a process at
// vm.max_map_count mappings and 128 TiB; one program gets a part of that, so that no single one
// takes the others'. Control alone adds to it; any thread gives back.
struct MappingQuota {
  static constexpr std::uint64_t kBytesMax = 16ULL << 40U;

  // Relaxed: counts order nothing.
  std::atomic<std::size_t> used{0};
  std::atomic<std::uint64_t> bytes{0};
  std::size_t limit = 0;

  [[nodiscard]] bool used_up() const { return used.load(std::memory_order_relaxed) >= limit; }
  static std::shared_ptr<MappingQuota> make();
};

// One MAP_SHARED mapping of whole pages. Made by the control thread; unmapped with its last owner,
// on whatever thread.
class Mapping {
 public:
  // Maps [offset, offset + length) of the file, rounded outwards to `page_size`.
  static Result<std::shared_ptr<const Mapping>> make(int descriptor, std::uint64_t page_size,
                                                     std::uint64_t offset, std::uint64_t length,
                                                     bool writable,
                                                     std::shared_ptr<MappingQuota> quota);
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
  std::shared_ptr<MappingQuota> quota_;
};

// The mappings of one arena. Registering a buffer again finds the old mapping, and giving a region
// back doesn't unmap: both would otherwise cost system calls and page faults each time. Mappings
// that no region uses are dropped when they have become as many as those in use.
class MappingCache {
 public:
  MappingCache(int descriptor, std::uint64_t page_size, std::shared_ptr<MappingQuota> quota);

  Result<std::shared_ptr<const Mapping>> map(std::uint64_t offset, std::uint64_t length);

 private:
  void drop_unused();

  static constexpr std::size_t kUnusedMin = 1024;  // kept without a look
  int descriptor_;
  std::uint64_t page_size_;
  std::shared_ptr<MappingQuota> quota_;
  std::map<std::uint64_t, std::shared_ptr<const Mapping>> by_offset_;
  std::size_t sweep_at_ = kUnusedMin;
};

}  // namespace uroce
