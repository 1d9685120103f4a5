#pragma once

// What is mapped where in this process, as the kernel says. Asked afresh at each registration,
// because the program maps and unmaps as it likes, past any book that we could keep.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/unique_fd.h"

namespace uroce::shim {

// One mapping: a run of pages of one source with one protection.
struct AreaRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // of start in the file
  std::uint64_t inode = 0;   // 0: no file
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  int protection = 0;  // PROT_*
  bool shared = false;
};

struct MappedArea : AreaRange {
  std::uint64_t page_size = 0;
  std::string name;  // the file's path, or [heap], [stack], [vdso] ...
};

// Visits all mappings, ascending, without touching the heap: for a fork's child.
void for_each_area(void (*visit)(const AreaRange&));

class MemoryMap {
 public:
  // by_query: ask for single areas where the kernel can (6.11); else all are read.
  explicit MemoryMap(bool by_query = true) : by_query_(by_query) {}

  // The area at `address`, else the next above it; nothing where there is none.
  [[nodiscard]] std::optional<MappedArea> at_or_above(std::uint64_t address);

  // Before a new question: what an older kernel was read from isn't true for long.
  void refresh() { areas_.clear(); }

  // In a fork's child: the file shows the parent's memory.
  void forget() { file_.reset(); }

  // All areas, ascending. Not a snapshot: an area that moves meanwhile can be missed.
  [[nodiscard]] static std::vector<MappedArea> all();

 private:
  // /proc/self/maps, for the ioctl. Kept open, because opening it costs more than all the rest.
  UniqueFd file_;
  bool by_query_;
  std::vector<MappedArea> areas_;  // where not by_query_
};

}  // namespace uroce::shim
