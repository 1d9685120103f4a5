#include "verbs_shim/memory/memory_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr const char* kPrivateHugePages = "/anon_hugepage";

// PROCMAP_QUERY of Linux 6.11, which Debian 12's headers don't have.
struct ProcmapQuery {
  std::uint64_t size;
  std::uint64_t query_flags;
  std::uint64_t query_addr;
  std::uint64_t vma_start;
  std::uint64_t vma_end;
  std::uint64_t vma_flags;
  std::uint64_t vma_page_size;
  std::uint64_t vma_offset;
  std::uint64_t inode;
  std::uint32_t dev_major;
  std::uint32_t dev_minor;
  std::uint32_t vma_name_size;
  std::uint32_t build_id_size;
  std::uint64_t vma_name_addr;
  std::uint64_t build_id_addr;
};
static_assert(sizeof(ProcmapQuery) == 104);
constexpr unsigned long kProcmapQuery = _IOWR('f', 17, ProcmapQuery);
constexpr std::uint64_t kReadable = 1;
constexpr std::uint64_t kWritable = 2;
constexpr std::uint64_t kExecutable = 4;
constexpr std::uint64_t kShared = 8;
constexpr std::uint64_t kCoveringOrNext = 16;

int protection_of(bool readable, bool writable, bool executable) {
  return (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
}

// /proc/self/maps has no page sizes, so private huge pages are looked up where they are told.
std::uint64_t huge_page_size_at(std::uint64_t start) {
  std::FILE* const file = std::fopen("/proc/self/smaps", "re");
  if (file == nullptr) {
    return kPage;
  }
  char line[4096];
  char wanted[32];
  std::snprintf(wanted, sizeof(wanted), "%" PRIx64 "-", start);
  bool inside = false;
  std::uint64_t kibibytes = kPage / 1024;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    inside = inside || std::strncmp(line, wanted, std::strlen(wanted)) == 0;
    if (inside && std::sscanf(line, "KernelPageSize: %" SCNu64, &kibibytes) == 1) {
      break;
    }
  }
  std::fclose(file);
  return kibibytes * 1024;
}

bool parse_line(const char* line, MappedArea* area) {
  char rights[8] = {};
  int name_at = 0;
  const int fields =
      std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
                  &area->start, &area->end, rights, &area->offset, &area->device_major,
                  &area->device_minor, &area->inode, &name_at);
  if (fields != 7) {
    return false;
  }
  area->protection = protection_of(rights[0] == 'r', rights[1] == 'w', rights[2] == 'x');
  area->shared = rights[3] == 's';
  area->name.assign(line + name_at);
  while (!area->name.empty() && area->name.back() == '\n') {
    area->name.pop_back();
  }
  area->page_size = kPage;
  return true;
}

}  // namespace

MemoryMap::MemoryMap() : file_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

std::optional<MappedArea> MemoryMap::at_or_above(std::uint64_t address) {
  if (areas_.empty()) {
    char name[4096];
    ProcmapQuery query = {};
    query.size = sizeof(query);
    query.query_flags = kCoveringOrNext;
    query.query_addr = address;
    query.vma_name_size = sizeof(name);
    query.vma_name_addr = reinterpret_cast<std::uintptr_t>(name);
    if (::ioctl(file_.get(), kProcmapQuery, &query) == 0) {
      return MappedArea{
          .start = query.vma_start,
          .end = query.vma_end,
          .offset = query.vma_offset,
          .inode = query.inode,
          .device_major = query.dev_major,
          .device_minor = query.dev_minor,
          .page_size = query.vma_page_size,
          .protection =
              protection_of((query.vma_flags & kReadable) != 0, (query.vma_flags & kWritable) != 0,
                            (query.vma_flags & kExecutable) != 0),
          .shared = (query.vma_flags & kShared) != 0,
          .name = query.vma_name_size == 0 ? std::string() : std::string(name),
      };
    }
    if (errno == ENOENT) {
      return std::nullopt;
    }
    areas_ = all();
  }
  const auto found =
      std::upper_bound(areas_.begin(), areas_.end(), address,
                       [](std::uint64_t wanted, const MappedArea& a) { return wanted < a.end; });
  if (found == areas_.end()) {
    return std::nullopt;
  }
  if (found->name.starts_with(kPrivateHugePages)) {
    found->page_size = huge_page_size_at(found->start);
  }
  return *found;
}

std::vector<MappedArea> MemoryMap::all() {
  std::vector<MappedArea> areas;
  std::FILE* const file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) {
    return areas;
  }
  char line[4608];  // a path, and what stands before it
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    MappedArea area;
    if (parse_line(line, &area)) {
      areas.push_back(std::move(area));
    }
  }
  std::fclose(file);
  return areas;
}

}  // namespace uroce::shim
