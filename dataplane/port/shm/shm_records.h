#pragma once

// The memory shared by two daemons of one machine: each has a memory that only it writes and the
// other only reads. It begins with records, which are followed by the frames that it sends.
//
//   sent[q], ring of q   ->  the other's worker     descriptors of frames, in the order of sending
//   taken[q]             <-                         how many of them it has read
//   returns, returned    <-                         slots of frames that it is done with
//   naps[q]              <-                         odd: the worker of its queue q sleeps
//
// Cursors count up and wrap; a reader keeps its own copy of what it has read of one, so an invalid
// cursor is detected.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/sockets/record_limits.h"

namespace uroce {

inline constexpr std::uint32_t kShmRingEntries = 1'024;  // frames in flight per queue
inline constexpr std::uint32_t kShmSlotsMax = 8'192;     // in a daemon's memory
// A connection begins with one message: a descriptor for the memory, and one to wake each queue.
inline constexpr std::uint32_t kShmQueuesMax = kDescriptorsMax - 1;

struct alignas(64) ShmCursor {
  std::atomic<std::uint32_t> value;
};

struct ShmDescriptor {
  static constexpr std::uint16_t kIcrcLeftOut = 1;  // flags; the others are 0
  std::uint16_t slot;
  std::uint16_t offset;  // of the frame in its slot
  std::uint16_t length;
  std::uint16_t flags;
};
static_assert(sizeof(ShmDescriptor) == sizeof(std::uint64_t));
static_assert(kShmSlotsMax <= 65'536);

struct ShmRing {
  // Written with release after the entries, read with acquire before them.
  ShmCursor sent;
  alignas(64) std::array<std::atomic<std::uint64_t>, kShmRingEntries> entries;
};

struct ShmRecords {
  std::array<ShmCursor, kShmQueuesMax> taken;
  std::array<ShmCursor, kShmQueuesMax> naps;
  // Like ShmRing. Has room for the maximum number of slots, so it is never full.
  ShmCursor returned;
  alignas(64) std::array<std::atomic<std::uint32_t>, kShmSlotsMax> returns;
  std::array<ShmRing, kShmQueuesMax> rings;
};
static_assert(std::is_standard_layout_v<ShmRecords> &&
              std::atomic<std::uint64_t>::is_always_lock_free);

// The message. Version 1 is this file; daemons of other versions don't connect.
struct ShmHello {
  static constexpr std::uint32_t kMagic = 0x6D687375;  // "ushm"
  static constexpr std::uint32_t kVersion = 1;
  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t queues = 0;
  std::uint32_t slots = 0;
  std::uint32_t stride = 0;  // bytes from slot to slot
  std::uint32_t mtu = 0;
};
static_assert(sizeof(ShmHello) == 24);

}  // namespace uroce
