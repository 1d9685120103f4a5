#pragma once

// The mappings of this process, as reported by the kernel. Queried each time, because the program
// can map and unmap without our knowledge.
//
// Nothing here uses the heap: callers are threads for which a holder of the heap's lock may be
// waiting, and a fork's child.

#include <cstdint>
#include <string_view>

#include "base/unique_fd.h"

namespace uroce::shim {

// One mapping: consecutive pages of one source with one protection.
struct AreaRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // of `start` in the file
  std::uint64_t inode = 0;   // 0: no file
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  int protection = 0;  // PROT_*
  bool shared = false;
};

struct MappedArea : AreaRange {
  static constexpr std::size_t kNameMax = 1024;

  std::uint64_t page_size = 0;
  char name_bytes[kNameMax] = {};  // empty if it is longer

  // The file's path, or [heap], [stack], [vdso] ...
  [[nodiscard]] std::string_view name() const { return name_bytes; }
};

// Visits all mappings, ascending. Not a snapshot: one that moves meanwhile can be missed. False if
// not all could be read (no descriptors left, no /proc): then a mapping that wasn't visited may
// exist nevertheless.
template <typename Visit>  // void(const AreaRange&)
[[nodiscard]] bool for_each_area(Visit visit);

// The message for that failure.
inline constexpr const char* kMapCantBeRead =
    "/proc/self/maps can't be read, which says what is mapped: /proc must be mounted, and a "
    "descriptor left (ulimit -n)";

class MemoryMap {
 public:
  // by_query: query single areas if the kernel supports it (6.11); else all are read each time.
  explicit MemoryMap(bool by_query = true) : by_query_(by_query) {}

  // The area at `address`, else the next above it. False: there is none, or reading failed.
  bool at_or_above(std::uint64_t address, MappedArea* area);
  // Whether the last call returned false because reading failed.
  [[nodiscard]] bool failed() const { return failed_; }

  // For a fork's child: the open file shows the parent's memory.
  void forget();

 private:
  bool query(std::uint64_t address, MappedArea* area, bool* found);

  // /proc/self/maps, for the ioctl. Kept open, because opening it costs more than a query.
  UniqueFd file_;
  bool by_query_;
  bool failed_ = false;
};

namespace detail {
// Calls `visit` for each line of /proc/self/maps until it returns false. `name` is NUL-terminated.
// False if reading failed before that.
bool read_maps(bool (*visit)(void* context, const AreaRange& area, const char* name),
               void* context);
}  // namespace detail

template <typename Visit>
bool for_each_area(Visit visit) {
  return detail::read_maps(
      [](void* context, const AreaRange& area, const char*) {
        (*static_cast<Visit*>(context))(area);
        return true;
      },
      &visit);
}

}  // namespace uroce::shim
