#include "mmu/region.h"

#include <utility>

#include "base/check.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pinned/durable_memory.h"

namespace uroce {

Region::Region(Config config) : config_(std::move(config)) {
  if (config_.mirror != nullptr) {
    UROCE_CHECK(config_.pieces.empty());
    config_.remote = config_.mirror->remote();
    config_.program = config_.mirror->program();
    return;
  }
  UROCE_CHECK(!config_.pieces.empty());
  std::uint64_t end = 0;
  for (const Piece& piece : config_.pieces) {
    UROCE_CHECK(piece.start == end && (piece.length != 0 || config_.length == 0));
    end += piece.length;
  }
  UROCE_CHECK(end == config_.length);
  first_ = config_.pieces.front();
  if ((config_.access & kAccessFlushPersistent) != 0) {
    durable_ = std::make_shared<const DurableMemory>(config_.program_address, config_.pieces,
                                                     config_.holds);
  }
}

std::uint32_t Region::remote_pieces() const {
  return config_.null ? 0
                      : static_cast<std::uint32_t>(
                            std::count_if(config_.pieces.begin(), config_.pieces.end(),
                                          [](const Piece& p) { return p.host == nullptr; }));
}

bool Region::pin() const {
  std::uint32_t pins = pins_.load(std::memory_order_relaxed);
  while ((pins & kNoMore) == 0) {
    if (pins_.compare_exchange_weak(pins, pins + 1, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

bool Region::close() const {
  std::uint32_t none = 0;
  // Acquire: pairs with unpin(), whose window has been rewritten before.
  return pins_.compare_exchange_strong(none, kNoMore, std::memory_order_acquire) || none == kNoMore;
}

bool Region::retire() const {
  // Acquire: as close().
  return (pins_.fetch_or(kNoMore, std::memory_order_acquire) & ~kNoMore) == 0;
}

Access Region::translate_on_demand(std::uint64_t distance, std::size_t length, bool write,
                                   Span* span) const {
  return config_.mirror->find(config_.program_address + distance, length, write, span);
}

const Region::Piece& Region::piece_at(std::uint64_t distance) const {
  const auto after = std::upper_bound(
      config_.pieces.begin(), config_.pieces.end(), distance,
      [](std::uint64_t wanted, const Piece& piece) { return wanted < piece.start; });
  return *std::prev(after);
}

}  // namespace uroce
