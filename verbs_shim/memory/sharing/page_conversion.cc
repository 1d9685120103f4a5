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

// Until a slice is mapped, its pages exist twice, and its writers wait.
constexpr std::uint64_t kSliceBytes = 32ULL << 20U;
constexpr std::uint64_t kSliceAlignment = 2ULL << 20U;  // splits no huge page

// The length of the slice that begins `done` bytes into the range.
std::uint64_t slice_at(const Conversion& whole, std::uint64_t done) {
  const std::uint64_t left = whole.length - done;
  const std::uint64_t most = std::max(kSliceBytes, whole.page_size);
  const std::uint64_t at = whole.start + done;
  return left <= most ? left
                      : align_floor(at + most, std::max(kSliceAlignment, whole.page_size)) - at;
}

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
    const std::uint64_t inside = start + done - slice_.start;
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
        ::pwrite(slice_.arena, bounce_, bytes, static_cast<off_t>(slice_.offset + inside)) != got) {
      return ENOMEM;
    }
    done += bytes;
  }
  return 0;
}

// The current run of present pages ends before page `end` of the range: copies the run.
int PageConversion::end_run(std::uint64_t end) {
  const std::uint64_t pages = std::exchange(run_, 0);
  return pages == 0 ? 0 : copy_run(slice_.start + (end - pages) * kPage, pages * kPage);
}

int PageConversion::copy_pages() {
  const std::uint64_t pages = slice_.length / kPage;
  int failed = 0;
  run_ = 0;
  for (std::uint64_t at = 0; failed == 0 && at < pages;) {
    const std::size_t count = std::min<std::uint64_t>(pages - at, kEntries);
    const auto place = static_cast<off_t>((slice_.start / kPage + at) * sizeof(std::uint64_t));
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

bool PageConversion::convert_slice() {
  if (user_fault_ >= 0 && hold_writers(user_fault_, slice_.start, slice_.length) != 0) {
    return false;
  }
  const bool converted =
      copy_pages() == 0 &&
      kernel::mmap(kernel::pointer(slice_.start), slice_.length, slice_.protection,
                   MAP_SHARED | MAP_FIXED, slice_.arena, slice_.offset) != MAP_FAILED;
  if (user_fault_ >= 0) {
    if (converted) {
      wake_waiters(user_fault_, slice_.start, slice_.length);
    } else {
      release_writers(user_fault_, slice_.start, slice_.length);
      user_faults_.end();  // releases all writers, should the kernel not have done so
    }
  }
  return converted;
}

bool PageConversion::convert_huge_slice() {
  void* const window = kernel::mmap(nullptr, slice_.length, PROT_READ | PROT_WRITE, MAP_SHARED,
                                    slice_.arena, slice_.offset);
  if (window == MAP_FAILED) {
    return false;
  }
  window_ = static_cast<std::byte*>(window);
  const bool converted = convert_slice();
  window_ = nullptr;
  kernel::munmap(window, slice_.length);
  return converted;
}

std::uint64_t PageConversion::run(const Conversion& conversion) {
  if (user_faults_.get() < 0) {
    user_faults_.keep(open_user_fault().descriptor);
  }
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const UniqueFd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  user_fault_ = user_faults_.get();
  if (!pagemap.valid() || !memory.valid() || (user_fault_ < 0 && !conversion.unwatched)) {
    return 0;
  }
  pagemap_ = pagemap.get();
  memory_ = memory.get();
  const bool huge = conversion.page_size != kPage;
  std::uint64_t done = 0;
  for (bool converted = true; converted && done < conversion.length;) {
    slice_ = conversion;
    slice_.start += done;
    slice_.offset += done;
    slice_.length = slice_at(conversion, done);
    converted = huge ? convert_huge_slice() : convert_slice();
    done += converted ? slice_.length : 0;
  }
  if (huge && done > slice_at(conversion, 0)) {
    // The kernel never merges mappings of huge pages. This one shows the same pages.
    (void)kernel::mmap(kernel::pointer(conversion.start), done, conversion.protection,
                       MAP_SHARED | MAP_FIXED, conversion.arena, conversion.offset);
  }
  return done;
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
