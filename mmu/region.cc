#include "mmu/region.h"

#include <utility>

#include "dataplane/base/check.h"

namespace uroce {

Region::Region(Config config) : config_(std::move(config)) {
  UROCE_CHECK(!config_.pieces.empty());
  std::uint64_t end = 0;
  for (const Piece& piece : config_.pieces) {
    UROCE_CHECK(piece.start == end && piece.length != 0);
    end += piece.length;
  }
  UROCE_CHECK(end == config_.length);
  first_ = config_.pieces.front();
}

std::uint32_t Region::remote_pieces() const {
  return static_cast<std::uint32_t>(
      std::count_if(config_.pieces.begin(), config_.pieces.end(),
                    [](const Piece& p) { return p.host == nullptr; }));
}

const Region::Piece& Region::piece_at(std::uint64_t distance) const {
  const auto after = std::upper_bound(
      config_.pieces.begin(), config_.pieces.end(), distance,
      [](std::uint64_t wanted, const Piece& piece) { return wanted < piece.start; });
  return *std::prev(after);
}

}  // namespace uroce
