#include "base/memory/memory_reserve.h"

#include <sys/mman.h>

#include <cstddef>

#include "base/memory/piece_reserve.h"

namespace uroce {
namespace {

struct MappedPieces {
  static constexpr std::size_t kCount = 8;
  static constexpr std::size_t kBytes = std::size_t{1} << 20U;

  static void* take() {
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  static void give_back(void* memory) { ::munmap(memory, kBytes); }
};

}  // namespace

bool hold_memory_reserve() { return PieceReserve<MappedPieces>::hold(); }

}  // namespace uroce
