#include "verbs_shim/memory/sharing/page_conversion.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/page.h"
#include "base/unique_fd.h"
#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/user_fault.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPresentOrSwapped = 3ULL << 62U;  // Documentation/admin-guide/mm/pagemap

}  // namespace

// A page that can't be read may have been dropped, but it may also be one for which the kernel has
// no memory, or that the hardware has lost.
bool PageConversion::is_there(std::uint64_t address) const {
  std::uint64_t entry = 0;
  const auto place = static_cast<off_t>(address / kPage * sizeof(entry));
  return ::pread(pagemap_, &entry, sizeof(entry), place) != sizeof(entry) ||
         (entry & kPresentOrSwapped) != 0;
}

// Reads through /proc/self/mem rather than from the address: if the program drops a page (madvise)
// while it is being copied, an access to the address would wait for a page that only we can
// provide; a read of the file fails at once.
int PageConversion::copy_run(std::uint64_t start, std::uint64_t length) {
  for (std::uint64_t done = 0; done < length;) {
    const std::uint64_t inside = start + done - order_.start;
    const std::size_t wanted = std::min<std::uint64_t>(length - done, kBounceBytes);
    std::byte* const target = window_ == nullptr ? bounce_ : window_ + inside;
    const ssize_t got = ::pread(memory_, target, wanted, static_cast<off_t>(start + done));
    if (got <= 0) {
      // EFAULT: the window has no huge page left.
      if ((got < 0 && errno == EFAULT) || is_there(start + done)) {
        return ENOMEM;
      }
      done += kPage;  // dropped meanwhile: reads as zeroes
      continue;
    }
    const auto bytes = static_cast<std::size_t>(got);
    if (window_ == nullptr &&
        ::pwrite(order_.arena, bounce_, bytes, static_cast<off_t>(order_.offset + inside)) != got) {
      return ENOMEM;
    }
    done += bytes;
  }
  return 0;
}

// The current run of present pages ends before page `end` of the range: copies the run.
int PageConversion::end_run(std::uint64_t end) {
  const std::uint64_t pages = std::exchange(run_, 0);
  return pages == 0 ? 0 : copy_run(order_.start + (end - pages) * kPage, pages * kPage);
}

int PageConversion::copy_pages() {
  const std::uint64_t pages = order_.length / kPage;
  int failed = 0;
  run_ = 0;
  for (std::uint64_t at = 0; failed == 0 && at < pages;) {
    const std::size_t count = std::min<std::uint64_t>(pages - at, kEntries);
    const auto place = static_cast<off_t>((order_.start / kPage + at) * sizeof(std::uint64_t));
    const ssize_t got = ::pread(pagemap_, entries_, count * sizeof(std::uint64_t), place);
    if (got <= 0) {
      return EIO;
    }
    const std::size_t known = static_cast<std::size_t>(got) / sizeof(std::uint64_t);
    for (std::size_t i = 0; failed == 0 && i < known; ++i, ++at) {
      if ((entries_[i] & kPresentOrSwapped) != 0) {
        ++run_;
      } else {
        failed = end_run(at);
      }
    }
  }
  return failed != 0 ? failed : end_run(pages);
}

int PageConversion::convert() {
  if (user_fault_ >= 0) {
    if (const int refused = hold_writers(user_fault_, order_.start, order_.length)) {
      return refused;
    }
  }
  int failed = copy_pages();
  if (failed == 0 &&
      kernel::mmap(kernel::pointer(order_.start), order_.length, order_.protection,
                   MAP_SHARED | MAP_FIXED, order_.arena, order_.offset) == MAP_FAILED) {
    failed = errno;
  }
  if (user_fault_ >= 0) {
    if (failed != 0) {
      release_writers(user_fault_, order_.start, order_.length);
      user_faults_.end();  // releases all writers, should the kernel not have done so
    } else {
      wake_waiters(user_fault_, order_.start, order_.length);
    }
  }
  return failed;
}

int PageConversion::run(const Conversion& conversion) {
  if (user_faults_.get() < 0) {
    user_faults_.keep(open_user_fault().descriptor);
  }
  const int user_fault = user_faults_.get();
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  if (!pagemap.valid() || !memory.valid() || (user_fault < 0 && !conversion.unwatched)) {
    return EPERM;
  }
  void* window = nullptr;
  if (conversion.page_size != kPage) {
    window = kernel::mmap(nullptr, conversion.length, PROT_READ | PROT_WRITE, MAP_SHARED,
                          conversion.arena, conversion.offset);
    if (window == MAP_FAILED) {
      return errno;
    }
  }
  order_ = conversion;
  user_fault_ = user_fault;
  pagemap_ = pagemap.get();
  memory_ = memory.get();
  window_ = static_cast<std::byte*>(window);
  const int error = convert();
  if (window != nullptr) {
    kernel::munmap(window, conversion.length);
  }
  return error;
}

// A directory has a link for each subdirectory. Another thread may start one of our own at the same
// time: what is counted afterwards must have been there.
bool one_thread() {
  constexpr int kDirectoryItself = 2;
  const unsigned starts = IsolatedThread::starts();
  struct stat tasks = {};
  const bool found = ::stat("/proc/self/task", &tasks) == 0;
  const int ours = IsolatedThread::count();
  return found && starts == IsolatedThread::starts() &&
         static_cast<int>(tasks.st_nlink) <= kDirectoryItself + 1 + ours;
}

}  // namespace uroce::shim
