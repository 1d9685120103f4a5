#pragma once

// A page of memory that is populated when the test says so: until then every access to it blocks,
// also the kernel's. A hostile program can do so with a file system of its own (FUSE) or a
// userfaultfd; the latter requires root by default.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "base/unique_fd.h"

namespace uroce::test {

class SlowPage {
 public:
  static constexpr std::size_t kBytes = 4096;

  SlowPage()
      : page_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        faults_(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC))) {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{
        .range = {address(), kBytes}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    works_ = faults_.valid() && ::ioctl(faults_.get(), UFFDIO_API, &api) == 0 &&
             ::ioctl(faults_.get(), UFFDIO_REGISTER, &range) == 0;
  }
  ~SlowPage() {
    come_in();
    ::munmap(page_, kBytes);
  }
  SlowPage(const SlowPage&) = delete;
  SlowPage& operator=(const SlowPage&) = delete;

  [[nodiscard]] bool works() const { return works_; }  // false: not root
  [[nodiscard]] void* get() const { return page_; }
  // Returns when a thread waits for the page.
  void await_fault() const {
    pollfd waiting{.fd = faults_.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&waiting, 1, -1);
  }
  void come_in() {
    uffdio_zeropage zero{.range = {address(), kBytes}, .mode = 0, .zeropage = 0};
    (void)::ioctl(faults_.get(), UFFDIO_ZEROPAGE, &zero);
  }

 private:
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(page_); }

  void* page_;
  UniqueFd faults_;
  bool works_ = false;
};

}  // namespace uroce::test
