#pragma once

// kMapRings: the shared memory in which the rings of a session's queue pairs lie, many queue pairs
// per memfd. The reply to the creation of a queue pair names the memory by a number; a program that
// hasn't mapped it yet asks for it by a HandleRequest with that number. Numbers aren't reused
// within a session.

#include <cstddef>
#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// Of one for many queue pairs, at most.
inline constexpr std::size_t kRingMemoryMax = std::size_t{512} << 10U;

// Descriptor: the memfd.
struct MapRingsReply {
  ReplyHeader header;
  std::uint64_t length;
  // Not 0: for many queue pairs. All its pages are there, and it is to be mapped with them: a page
  // fault takes as long as ten messages. Else it is one queue pair's, and shown once.
  std::uint64_t shared;
};
static_assert(sizeof(MapRingsReply) == sizeof(ReplyHeader) + 16);

}  // namespace uroce::abi
