#include "mmu/pinned/durable_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/page.h"

namespace uroce {

DurableMemory::DurableMemory(std::uint64_t program_address, std::vector<Region::Piece> pieces,
                             std::vector<std::shared_ptr<const void>> holds)
    : program_address_(program_address), pieces_(std::move(pieces)), holds_(std::move(holds)) {}

Access DurableMemory::sync(std::uint64_t address, std::uint64_t length) const {
  const std::uint64_t first = address - program_address_;
  const std::uint64_t end = first + length;
  for (const Region::Piece& piece : pieces_) {
    const std::uint64_t from = std::max(first, piece.start);
    const std::uint64_t to = std::min(end, piece.start + piece.length);
    if (from >= to) {
      continue;
    }
    if (piece.host == nullptr) {
      return Access::kLost;
    }
    std::byte* const host = piece.host + (from - piece.start);
    const std::uintptr_t inside = reinterpret_cast<std::uintptr_t>(host) % kPage;
    if (::msync(host - inside, to - from + inside, MS_SYNC) != 0) {
      return Access::kLost;
    }
  }
  return Access::kGranted;
}

}  // namespace uroce
