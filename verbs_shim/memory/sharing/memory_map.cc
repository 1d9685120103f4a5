#include "verbs_shim/memory/sharing/memory_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/page.h"

namespace uroce::shim {
namespace {

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

// Calls `visit` for each line of the file until it returns false. Uses no heap, and little stack:
// some threads have no more than 16 KiB. False if reading failed before that.
template <typename Visit>  // bool(char* line)
bool for_each_line(const char* path, Visit visit) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  char buffer[4'608];  // longer than any line
  std::size_t held = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer + held, sizeof(buffer) - 1 - held);
    if (got <= 0) {
      return got == 0 && held == 0;
    }
    held += static_cast<std::size_t>(got);
    buffer[held] = '\0';
    char* line = buffer;
    while (char* const newline = std::strchr(line, '\n')) {
      *newline = '\0';
      if (!visit(line)) {
        return true;
      }
      line = newline + 1;
    }
    held = static_cast<std::size_t>(buffer + held - line);
    std::memmove(buffer, line, held);
  }
}

// /proc/self/maps has no page sizes, so those of private huge pages are read from smaps. Only
// needed for kernels before 6.11.
std::uint64_t huge_page_size_at(std::uint64_t start) {
  char wanted[32];
  std::snprintf(wanted, sizeof(wanted), "%" PRIx64 "-", start);
  bool inside = false;
  std::uint64_t kibibytes = kPage / 1024;
  (void)for_each_line("/proc/self/smaps", [&](const char* line) {
    inside = inside || std::strncmp(line, wanted, std::strlen(wanted)) == 0;
    return !inside || std::sscanf(line, "KernelPageSize: %" SCNu64, &kibibytes) != 1;
  });
  return kibibytes * 1024;
}

// *name_at: offset of the name in the line.
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

void keep_name(MappedArea* area, const char* name) {
  const std::size_t length = std::strlen(name);
  area->name_bytes[0] = '\0';
  if (length < MappedArea::kNameMax) {
    std::memcpy(area->name_bytes, name, length + 1);
  }
}

// Returns 0 and the area, ENOENT, or the kernel's error.
int query_area(int file, std::uint64_t address, MappedArea* area) {
  ProcmapQuery query = {};
  query.size = sizeof(query);
  query.query_flags = kCoveringOrNext;
  query.query_addr = address;
  query.vma_name_size = MappedArea::kNameMax;
  query.vma_name_addr = reinterpret_cast<std::uintptr_t>(area->name_bytes);
  if (::ioctl(file, kProcmapQuery, &query) != 0) {
    if (errno != ENAMETOOLONG) {
      return errno;
    }
    query.vma_name_size = 0;
    query.vma_name_addr = 0;
    if (::ioctl(file, kProcmapQuery, &query) != 0) {
      return errno;
    }
  }
  if (query.vma_name_size == 0) {
    area->name_bytes[0] = '\0';
  }
  area->start = query.vma_start;
  area->end = query.vma_end;
  area->offset = query.vma_offset;
  area->inode = query.inode;
  area->device_major = query.dev_major;
  area->device_minor = query.dev_minor;
  area->protection =
      protection_of((query.vma_flags & kReadable) != 0, (query.vma_flags & kWritable) != 0,
                    (query.vma_flags & kExecutable) != 0);
  area->shared = (query.vma_flags & kShared) != 0;
  area->page_size = query.vma_page_size;
  return 0;
}

}  // namespace

bool MemoryMap::query(std::uint64_t address, MappedArea* area, bool* found) {
  int failed = query_area(file_.get(), address, area);
  if (failed != 0 && failed != ENOENT) {
    // Not open yet; or the program has closed the unknown descriptor, so the number isn't ours.
    (void)file_.release();
    file_.reset(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    failed = query_area(file_.get(), address, area);
  }
  *found = failed == 0;
  return failed == 0 || failed == ENOENT;
}

void MemoryMap::forget() {
  if (!file_.valid()) {
    return;
  }
  MappedArea area;
  const int failed = query_area(file_.get(), 0, &area);
  if (failed != 0 && failed != ENOENT) {
    (void)file_.release();  // the number is used by the program now
  }
  file_.reset();
}

bool MemoryMap::at_or_above(std::uint64_t address, MappedArea* area) {
  if (by_query_) {
    bool found = false;
    if (query(address, area, &found)) {
      failed_ = false;
      return found;
    }
    by_query_ = false;
    file_.reset();
  }
  struct Search {
    std::uint64_t address;
    MappedArea* area;
    bool found;
  } search{.address = address, .area = area, .found = false};
  failed_ = !detail::read_maps(
      [](void* context, const AreaRange& one, const char* name) {
        auto& wanted = *static_cast<Search*>(context);
        if (one.end <= wanted.address) {
          return true;
        }
        static_cast<AreaRange&>(*wanted.area) = one;
        keep_name(wanted.area, name);
        wanted.found = true;
        return false;
      },
      &search);
  if (search.found) {
    area->page_size =
        area->name().starts_with(kPrivateHugePages) ? huge_page_size_at(area->start) : kPage;
  }
  return search.found;
}

bool detail::read_maps(bool (*visit)(void* context, const AreaRange& area, const char* name),
                       void* context) {
  return for_each_line("/proc/self/maps", [&](const char* line) {
    AreaRange area;
    int name_at = 0;
    return !parse_line(line, &area, &name_at) || visit(context, area, line + name_at);
  });
}

}  // namespace uroce::shim
