#include "verbs_shim/memory/converter.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <utility>

#include "dataplane/base/unique_fd.h"
#include "verbs_shim/memory/user_fault.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kStackBytes = 256ULL << 10U;
constexpr std::size_t kGuardBytes = kPage;
constexpr std::size_t kBounceBytes = 128ULL << 10U;
constexpr std::size_t kEntries = 4096;                    // of pagemap, read at once
constexpr std::uint64_t kPresentOrSwapped = 3ULL << 62U;  // Documentation/admin-guide/mm/pagemap

enum State : std::uint32_t { kIdle, kOrdered, kDone };

void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value) {
  ::syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& state) {
  ::syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// The descriptors that one conversion needs; opened and closed by the caller.
struct Tools {
  UserFault user_fault;
  UniqueFd pagemap;
  UniqueFd memory;
};

// Threads of the process; a directory has a link for each below it.
bool alone() {
  struct stat tasks = {};
  constexpr nlink_t kDirectoryItself = 2;
  constexpr nlink_t kThisAndOurs = 2;
  return ::stat("/proc/self/task", &tasks) == 0 &&
         tasks.st_nlink <= kDirectoryItself + kThisAndOurs;
}

}  // namespace

// What the caller puts down for the thread, and the thread's room to work.
struct Converter::Desk {
  // kIdle -> kOrdered by the caller, -> kDone by the thread, -> kIdle by the caller. Each store is
  // a release that pairs with the acquire of whoever waits for it.
  std::atomic<std::uint32_t> state{kIdle};
  Conversion order;
  int user_fault = -1;  // -1: nobody else could write
  int pagemap = -1;
  int memory = -1;
  std::byte* window = nullptr;  // of the place in the arena, where the file can't be written to
  int error = 0;
  std::uint64_t run = 0;  // pages that are there, just passed and not yet copied
  std::uint64_t entries[kEntries];
  std::byte bounce[kBounceBytes];

  int convert();
  int copy_pages();
  int end_run(std::uint64_t end);
  int copy_run(std::uint64_t start, std::uint64_t length);
};

// Reading through /proc/self/mem rather than from the address: should the program drop a page
// (madvise) while it is being copied, the address would wait for a page that only we can bring, but
// the file says at once that there is none.
int Converter::Desk::copy_run(std::uint64_t start, std::uint64_t length) {
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t inside = start + done - order.start;
    const std::size_t wanted = std::min<std::uint64_t>(length - done, kBounceBytes);
    std::byte* const target = window == nullptr ? bounce : window + inside;
    const ssize_t got = ::pread(memory, target, wanted, static_cast<off_t>(start + done));
    if (got <= 0) {
      if (got < 0 && errno == EFAULT) {
        return ENOMEM;  // the window has no huge page left
      }
      done += kPage;  // dropped meanwhile: reads as zeroes
      continue;
    }
    const auto bytes = static_cast<std::size_t>(got);
    if (window == nullptr &&
        ::pwrite(order.arena, bounce, bytes, static_cast<off_t>(order.offset + inside)) != got) {
      return ENOMEM;
    }
    done += bytes;
  }
  return 0;
}

// The run of present pages ends before page `end` of the range: copies it.
int Converter::Desk::end_run(std::uint64_t end) {
  const std::uint64_t pages = std::exchange(run, 0);
  return pages == 0 ? 0 : copy_run(order.start + (end - pages) * kPage, pages * kPage);
}

int Converter::Desk::copy_pages() {
  const std::uint64_t pages = order.length / kPage;
  int failed = 0;
  run = 0;
  for (std::uint64_t at = 0; failed == 0 && at < pages;) {
    const std::size_t count = std::min<std::uint64_t>(pages - at, kEntries);
    const auto place = static_cast<off_t>((order.start / kPage + at) * sizeof(std::uint64_t));
    const ssize_t got = ::pread(pagemap, entries, count * sizeof(std::uint64_t), place);
    if (got <= 0) {
      return EIO;
    }
    const std::size_t known = static_cast<std::size_t>(got) / sizeof(std::uint64_t);
    for (std::size_t i = 0; failed == 0 && i < known; ++i, ++at) {
      if ((entries[i] & kPresentOrSwapped) != 0) {
        ++run;
      } else {
        failed = end_run(at);
      }
    }
  }
  return failed != 0 ? failed : end_run(pages);
}

int Converter::Desk::convert() {
  if (user_fault >= 0) {
    if (const int refused = hold_writers(user_fault, order.start, order.length)) {
      return refused;
    }
  }
  int failed = copy_pages();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the program's, not of an object
  auto* const place = reinterpret_cast<void*>(order.start);
  if (failed == 0 && ::mmap(place, order.length, order.protection, MAP_SHARED | MAP_FIXED,
                            order.arena, static_cast<off_t>(order.offset)) == MAP_FAILED) {
    failed = errno;
  }
  if (user_fault >= 0) {
    if (failed != 0) {
      release_writers(user_fault, order.start, order.length);
    } else {
      wake_waiters(user_fault, order.start, order.length);
    }
  }
  return failed;
}

void* Converter::work(void* argument) {
  Desk& desk = *static_cast<Desk*>(argument);
  for (;;) {
    for (std::uint32_t state; (state = desk.state.load(std::memory_order_acquire)) != kOrdered;) {
      wait_while(desk.state, state);
    }
    desk.error = desk.convert();
    desk.state.store(kDone, std::memory_order_release);
    wake(desk.state);
  }
  return nullptr;
}

bool Converter::start() {
  if (desk_ != nullptr) {
    return true;
  }
  const std::size_t desk_bytes = (sizeof(Desk) + kPage - 1) / kPage * kPage;
  const std::size_t bytes = kGuardBytes + kStackBytes + desk_bytes;
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return false;
  }
  ::mprotect(room, kGuardBytes, PROT_NONE);
  auto* const stack = static_cast<std::byte*>(room) + kGuardBytes;
  Desk* const desk = new (stack + kStackBytes) Desk;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The program's signals are not for this thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, &attributes, work, desk) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!started) {
    ::munmap(room, bytes);
    return false;
  }
  pthread_setname_np(thread, "uroce-memory");
  desk_ = desk;
  return true;
}

int Converter::run(const Conversion& conversion) {
  if (!start()) {
    return EAGAIN;
  }
  Tools tools{.user_fault = open_user_fault(),
              .pagemap = UniqueFd(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)),
              .memory = UniqueFd(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC))};
  if (!tools.pagemap.valid() || !tools.memory.valid()) {
    return EPERM;
  }
  if (!tools.user_fault.descriptor.valid() && !alone()) {
    return EPERM;
  }
  void* window = nullptr;
  if (conversion.page_size != kPage) {
    window = ::mmap(nullptr, conversion.length, PROT_READ | PROT_WRITE, MAP_SHARED,
                    conversion.arena, static_cast<off_t>(conversion.offset));
    if (window == MAP_FAILED) {
      return errno;
    }
  }
  desk_->order = conversion;
  desk_->user_fault = tools.user_fault.descriptor.get();
  desk_->pagemap = tools.pagemap.get();
  desk_->memory = tools.memory.get();
  desk_->window = static_cast<std::byte*>(window);
  // A signal handler could write to the range where nothing holds writers.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  desk_->state.store(kOrdered, std::memory_order_release);
  wake(desk_->state);
  while (desk_->state.load(std::memory_order_acquire) != kDone) {
    wait_while(desk_->state, kOrdered);
  }
  const int error = desk_->error;
  desk_->state.store(kIdle, std::memory_order_release);
  wake(desk_->state);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (window != nullptr) {
    ::munmap(window, conversion.length);
  }
  return error;
}

}  // namespace uroce::shim
