// What the kernel can do, and who has the port.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "apps/doctor/facts.h"
#include "base/unique_fd.h"
#include "dataplane/wire/headers.h"

namespace uroce::doctor {
namespace {

bool holds_writers(int descriptor) {
  uffdio_api api = {};
  api.api = UFFD_API;
  return ::ioctl(descriptor, UFFDIO_API, &api) == 0 &&
         (api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
}

// Whether a program gets what conversion of private memory would like, by whichever of the two ways
// (verbs_shim/memory/sharing/user_fault.h), or what it falls back to.
KernelFacts::UserFault user_fault() {
  const auto call = [](int flags) {
    return UniqueFd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags)));
  };
  const UniqueFd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  const UniqueFd for_user_mode = call(UFFD_USER_MODE_ONLY);
  if (for_user_mode.valid() && !holds_writers(for_user_mode.get())) {
    return KernelFacts::UserFault::kHoldsNoWriters;
  }
  if (device.valid() || call(0).valid()) {
    return KernelFacts::UserFault::kAll;
  }
  return for_user_mode.valid() ? KernelFacts::UserFault::kUserMode
                               : KernelFacts::UserFault::kRefused;
}

// Debian 12's headers don't have it: _IOWR(PROCFS_IOCTL_MAGIC, 17, struct procmap_query). Any
// answer but "no such request" says that the kernel knows it.
bool knows_procmap_query() {
  struct Query {
    std::uint64_t size = sizeof(Query), flags = 0, address = 0, rest[10] = {};
  } query;
  static_assert(sizeof(Query) == 104);
  const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  constexpr unsigned long kProcmapQuery = _IOWR('f', 17, Query);
  return maps.valid() && (::ioctl(maps.get(), kProcmapQuery, &query) == 0 || errno != ENOTTY);
}

bool has_pidfd() {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  return self.valid();
}

std::uint64_t huge_pages() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    std::uint64_t count = 0;
    if (word == "HugePages_Total:" && file >> count) {
      return count;
    }
  }
  return 0;
}

std::uint64_t memlock_bytes() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? limit.rlim_cur
             : UINT64_MAX;
}

std::uint64_t processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0
             ? static_cast<std::uint64_t>(CPU_COUNT(&set))
             : 1;
}

bool port_is_taken(int family) {
  const UniqueFd probe(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};  // wildcard; an IPv4 address is shorter, its port at the same place
  address.sin6_family = static_cast<sa_family_t>(family);
  address.sin6_port = htons(kRoceUdpPort);
  const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return probe.valid() &&
         ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 &&
         errno == EADDRINUSE;
}

std::vector<std::string> kernel_cards() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace

KernelFacts gather_kernel() {
  return {.userfaultfd = user_fault(),
          .procmap_query = knows_procmap_query(),
          .pidfd = has_pidfd(),
          .huge_pages = huge_pages(),
          .memlock_bytes = memlock_bytes(),
          .processors = processors(),
          .roce_port_taken = port_is_taken(AF_INET) || port_is_taken(AF_INET6),
          .kernel_cards = kernel_cards()};
}

}  // namespace uroce::doctor
