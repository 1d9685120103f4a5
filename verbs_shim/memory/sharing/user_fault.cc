#include "verbs_shim/memory/sharing/user_fault.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace uroce::shim {
namespace {

// Of Linux 6.1, for /dev/userfaultfd.
constexpr unsigned long kNewUserFault = _IO(0xAA, 0x00);
constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
constexpr int kUserModeOnly = 1;

int open_device() {
  const UniqueFd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  return device.valid() ? ::ioctl(device.get(), kNewUserFault, kFlags) : -1;
}

int open_call(int flags) { return static_cast<int>(::syscall(SYS_userfaultfd, flags)); }

// On arm64 the kernel can write-protect since Linux 6.10.
bool agree(int descriptor) {
  uffdio_api api = {};
  api.api = UFFD_API;
  return ::ioctl(descriptor, UFFDIO_API, &api) == 0 &&
         (api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP) != 0;
}

}  // namespace

UserFault open_user_fault() {
  UserFault result;
  result.descriptor.reset(open_call(kFlags));
  if (!result.descriptor.valid()) {
    result.descriptor.reset(open_device());
  }
  if (!result.descriptor.valid()) {
    result.descriptor.reset(open_call(kFlags | kUserModeOnly));
    result.user_mode_only = true;
  }
  if (result.descriptor.valid() && !agree(result.descriptor.get())) {
    result.descriptor.reset();
  }
  return result;
}

int hold_writers(int user_fault, std::uint64_t start, std::uint64_t length) {
  uffdio_register registration = {};
  registration.range = {.start = start, .len = length};
  // MISSING as well, for pages that don't exist. (WP_UNPOPULATED would do it with markers, which
  // pagemap shows as pages: each untouched one would be copied.)
  registration.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(user_fault, UFFDIO_REGISTER, &registration) != 0) {
    return errno;
  }
  uffdio_writeprotect protection = {};
  protection.range = registration.range;
  protection.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (::ioctl(user_fault, UFFDIO_WRITEPROTECT, &protection) != 0) {
    const int error = errno;
    release_writers(user_fault, start, length);
    return error;
  }
  return 0;
}

void wake_waiters(int user_fault, std::uint64_t start, std::uint64_t length) {
  uffdio_range range = {.start = start, .len = length};
  ::ioctl(user_fault, UFFDIO_WAKE, &range);
}

void release_writers(int user_fault, std::uint64_t start, std::uint64_t length) {
  // Removes the write protection and wakes all waiters.
  uffdio_range range = {.start = start, .len = length};
  ::ioctl(user_fault, UFFDIO_UNREGISTER, &range);
  wake_waiters(user_fault, start, length);
}

}  // namespace uroce::shim
