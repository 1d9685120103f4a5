#include "mmu/mirror/reservation.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"

namespace uroce {
namespace {

// Before 5.17 Linux doesn't move mappings of huge pages. That it doesn't is found out once.
std::atomic<bool> moves_huge_pages = true;

// After a move that failed for this reason. Without memory for it (ENOMEM: mostly there are as many
// mappings as the kernel allows) nothing has changed. Otherwise there is a hole, and if another
// thread has got these very addresses in this moment, the daemon can't go on: a program could
// discard what is there now.
void fill_hole(std::byte* at, std::size_t length, int reason) {
  const void* const filled =
      ::mmap(at, length, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  UROCE_CHECK(filled == at || reason == ENOMEM);
}

}  // namespace

bool map_into_reservation(std::byte* at, std::size_t length, const MirrorPiece& piece,
                          std::uint64_t offset) {
  const bool huge = piece.page_size > Mirror::kPage;
  if (huge && !moves_huge_pages.load(std::memory_order_relaxed)) {
    return false;
  }
  void* const elsewhere = ::mmap(nullptr, length, piece.write ? PROT_READ | PROT_WRITE : PROT_READ,
                                 MAP_SHARED, piece.descriptor, static_cast<off_t>(offset));
  if (elsewhere == MAP_FAILED) {
    return false;
  }
  if (::mremap(elsewhere, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
    const int reason = errno;
    if (huge && reason == EINVAL) {
      moves_huge_pages.store(false, std::memory_order_relaxed);
    }
    (void)::munmap(elsewhere, length);
    fill_hole(at, length, reason);
    return false;
  }
  return true;
}

}  // namespace uroce
