#include "verbs_shim/memory/memory_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

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

// *name_at: where the name begins in the line.
bool parse_line(const char* line, AreaRange* area, int* name_at) {
  char rights[8] = {};
  const int fields =
      std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %n",
                  &area->start, &area->end, rights, &area->offset, &area->device_major,
                  &area->device_minor, &area->inode, name_at);
  area->protection = protection_of(rights[0] == 'r', rights[1] == 'w', rights[2] == 'x');
  area->shared = rights[3] == 's';
  return fields == 7;
}

MappedArea from_query(const ProcmapQuery& query, const char* name) {
  MappedArea area;
  area.start = query.vma_start;
  area.end = query.vma_end;
  area.offset = query.vma_offset;
  area.inode = query.inode;
  area.device_major = query.dev_major;
  area.device_minor = query.dev_minor;
  area.protection =
      protection_of((query.vma_flags & kReadable) != 0, (query.vma_flags & kWritable) != 0,
                    (query.vma_flags & kExecutable) != 0);
  area.shared = (query.vma_flags & kShared) != 0;
  area.page_size = query.vma_page_size;
  area.name = query.vma_name_size == 0 ? "" : name;
  return area;
}

}  // namespace

namespace {

// 0 and the area, ENOENT, or why the kernel can't say.
int query_area(int file, std::uint64_t address, MappedArea* area) {
  char name[4096];
  ProcmapQuery query = {};
  query.size = sizeof(query);
  query.query_flags = kCoveringOrNext;
  query.query_addr = address;
  query.vma_name_size = sizeof(name);
  query.vma_name_addr = reinterpret_cast<std::uintptr_t>(name);
  if (::ioctl(file, kProcmapQuery, &query) != 0) {
    return errno;
  }
  *area = from_query(query, name);
  return 0;
}

}  // namespace

std::optional<MappedArea> MemoryMap::at_or_above(std::uint64_t address) {
  if (by_query_) {
    MappedArea area;
    int failed = query_area(file_.get(), address, &area);
    if (failed != 0 && failed != ENOENT) {
      // Not open yet; or the program has closed what it didn't know, so the number isn't ours.
      static_cast<void>(file_.release());
      file_.reset(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
      failed = query_area(file_.get(), address, &area);
    }
    if (failed == 0) {
      return area;
    }
    if (failed == ENOENT) {
      return std::nullopt;
    }
    by_query_ = false;
    file_.reset();
  }
  if (areas_.empty()) {
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
    int name_at = 0;
    if (parse_line(line, &area, &name_at)) {
      area.page_size = kPage;
      area.name = std::string_view(line + name_at, std::strcspn(line + name_at, "\n"));
      areas.push_back(std::move(area));
    }
  }
  std::fclose(file);
  return areas;
}

void for_each_area(void (*visit)(const AreaRange&)) {
  const UniqueFd file(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  char buffer[16'384];  // longer than any line
  std::size_t held = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer + held, sizeof(buffer) - 1 - held);
    if (got <= 0) {
      return;
    }
    held += static_cast<std::size_t>(got);
    buffer[held] = '\0';
    char* line = buffer;
    while (char* const newline = std::strchr(line, '\n')) {
      *newline = '\0';
      AreaRange area;
      int name_at = 0;
      if (parse_line(line, &area, &name_at)) {
        visit(area);
      }
      line = newline + 1;
    }
    held = static_cast<std::size_t>(buffer + held - line);
    std::memmove(buffer, line, held);
  }
}

}  // namespace uroce::shim
