#pragma once

// The program's side of sharing memory: describes how the daemon can access a registered range, and
// converts private pages into shared ones at the same addresses, transparently to the program.
//
// Any thread may call; the state is per process. Described in docs/memory.md.

#include <cstddef>
#include <cstdint>

#include "abi/memory_piece.h"
#include "base/memory/growing_array.h"
#include "base/refusal.h"
#include "base/unique_fd.h"

namespace uroce::shim {

// A memfd to pass to the daemon (kShareArena) before the first piece in it. The callee keeps
// ownership; valid until the process ends or forks.
struct Arena {
  int descriptor = -1;
  std::uint64_t page_size = 0;
};

// Resources of a registration, for release_memory(). Empty unless describe_memory() filled it in.
struct HeldMemory {
  struct Place {
    std::uint32_t arena;  // as in arena()
    std::uint64_t offset, length;
  };
  std::uint64_t address = 0, length = 0;  // charged
  GrowingArray<Place> places;             // pinned
};

struct MemoryDescription {
  // Sorted, without gaps, whole pages. kArena: `source` is an index for arena(); the caller
  // replaces it by the daemon's handle in this session. kDescriptor: `source` is an index into
  // `descriptors`.
  GrowingArray<abi::MemoryPiece> pieces;
  GrowingArray<UniqueFd> descriptors;  // to be passed with the request, then closed
  HeldMemory held;
  // The ranges converted just now; only pages that were present were copied.
  struct Range {
    std::uint64_t start, length;
  };
  GrowingArray<Range> converted;
  // The reason why private memory wasn't converted and is accessed by /proc/PID/mem; usually empty.
  Sentence unconverted_reason;
};

// Whether a registration's memory is charged to RLIMIT_MEMLOCK. kBefore: it is already, because the
// region changes its rights or its domain only.
enum class Charging : std::uint8_t { kAnew, kBefore };

// Charges the range to RLIMIT_MEMLOCK (not with IBV_ACCESS_ON_DEMAND), converts private memory, and
// describes all of it. `access`: enum ibv_access_flags. Errors as from the kernel: EINVAL for a
// range that wraps or is empty, EFAULT for unmapped memory or access that the mapping doesn't
// permit, ENOMEM over the limit, and in a program that has no memory left. After success, call
// release_memory() once: when the registration has failed after all, or at deregistration.
OrRefusal<MemoryDescription> describe_memory(std::uint64_t address, std::uint64_t length,
                                             std::uint32_t access,
                                             Charging charging = Charging::kAnew);
void release_memory(const HeldMemory& held);

// REQUIRES: `index` came in a description of this process. Its descriptor is -1 if the program has
// closed it.
Arena arena(std::uint32_t index);

// Lets the daemon open our /proc/PID/mem even if Yama restricts that. Call once per session before
// anything else of this header and any kProcMem, if the daemon asks for it; the last one wins,
// because the kernel keeps only one.
void allow_daemon(int daemon_pid);

}  // namespace uroce::shim
