#pragma once

// The program's side of sharing memory: says how the daemon reaches a range that is registered, and
// makes private pages shared on the way, at the same addresses, without the program noticing.
//
// Any thread may call; what is kept here is the process's. docs/memory.md tells the whole story.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi/memory_piece.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce::shim {

// A memfd to hand to the daemon (kShareArena) before the first piece that lies in it. Stays the
// callee's; valid until the process ends or forks.
struct Arena {
  int descriptor = -1;
  std::uint64_t page_size = 0;
};

// What a registration holds, for release_memory(). Nothing, unless describe_memory() filled it in.
struct HeldMemory {
  struct Place {
    std::uint32_t arena;  // as in arena()
    std::uint64_t offset, length;
  };
  std::uint64_t address = 0, length = 0;  // charged
  std::vector<Place> places;              // pinned
};

struct MemoryDescription {
  // Sorted, without gaps, whole pages. kArena: `source` is an index for arena(); the caller
  // replaces it by the handle that the daemon gave this session for it. kDescriptor: `source` is an
  // index into `descriptors`.
  std::vector<abi::MemoryPiece> pieces;
  std::vector<UniqueFd> descriptors;  // to be passed with the request, then closed
  HeldMemory held;
  // What was converted just now, page by page as far as it was there.
  struct Range {
    std::uint64_t start, length;
  };
  std::vector<Range> converted;
  // Why private memory wasn't converted and is accessed by /proc/PID/mem; mostly empty.
  std::string left_alone;
};

// Charges the range to RLIMIT_MEMLOCK (not with IBV_ACCESS_ON_DEMAND), converts what is private,
// and describes all of it. `access` is enum ibv_access_flags. Errors as a kernel gives them: EINVAL
// for a range that wraps or is empty, EFAULT for unmapped memory or a right that the mapping
// doesn't have, ENOMEM over the limit. On success, release_memory follows once: when the
// registration failed after all, or when it is over.
Result<MemoryDescription> describe_memory(std::uint64_t address, std::uint64_t length,
                                          std::uint32_t access);
void release_memory(const HeldMemory& held);

// REQUIRES: `index` came in a description of this process. Its descriptor is -1 where the program
// has closed it.
Arena arena(std::uint32_t index);

// Before anything else of this header: lets the daemon open our /proc/PID/mem where Yama would
// forbid it. Once a session, before any kProcMem; the last daemon wins, because the kernel keeps
// one.
void allow_daemon(int daemon_pid);

}  // namespace uroce::shim
