#include "verbs_shim/objects/heap_reserve.h"

#include <cstddef>
#include <cstdlib>

#include "base/memory/piece_reserve.h"

namespace uroce::shim {
namespace {

struct HeapPieces {
  // Below what malloc maps by itself. Neighbours that are both given back become one.
  static constexpr std::size_t kCount = 16;
  static constexpr std::size_t kBytes = std::size_t{32} << 10U;

  static void* take() { return std::malloc(kBytes); }
  static void give_back(void* memory) { std::free(memory); }
};

}  // namespace

bool hold_heap_reserve() { return PieceReserve<HeapPieces>::hold(); }

}  // namespace uroce::shim
