#pragma once

// The protocol of on-demand paging between daemon and program: two SOCK_SEQPACKET sockets (created
// by kOpenPaging), separate from the command socket (abi/command_records.h), because neither may
// wait for a command in progress: a program's thread can be in the middle of a command while its
// memory is requested, and can free memory inside of one.
//
//   share channel       the daemon asks, a helper thread of the program answers: what is mapped at
//                       these addresses? Make it shared
//   invalidate channel  the program's threads ask, the daemon answers: the mappings at these
//                       addresses are about to change
//
// docs/odp.md describes the whole. Records are fixed-size C structs; kVersion covers this file.
// Neither side trusts the other's bytes.

#include <cstdint>

#include "abi/memory_piece.h"
#include "base/page.h"

namespace uroce::abi {

inline constexpr std::uint32_t kPagingMagic = 0x75706167;            // "upag"
inline constexpr std::uint64_t kPagingChunk = 2ULL << 20U;           // what is shared at a time
inline constexpr std::uint64_t kPagingAddressEnd = kAddressEnd;      // of a program
inline constexpr std::uint32_t kSharedPiecesMax = 512;               // of one answer
inline constexpr std::uint32_t kPagingDescriptorsMax = 64;           // of one record
inline constexpr std::uint64_t kImplicitLength = ~std::uint64_t{0};  // SIZE_MAX

enum class PagingKind : std::uint32_t {
  // Share channel.
  kShareRange = 1,  // daemon -> program: ShareRange, answered by kSharedRange
  kArena,           // program -> daemon: PagingArena, not answered
  kSharedRange,     // program -> daemon: SharedRange
  // Invalidate channel.
  kInvalidate,     // program -> daemon: Invalidate, answered by kInvalidated
  kInvalidated,    // daemon -> program: a bare PagingHeader
  kInvalidateEnd,  // program -> daemon: a bare PagingHeader, not answered
};

struct PagingHeader {
  std::uint32_t magic = kPagingMagic;
  std::uint32_t version = 0;  // kVersion
  PagingKind kind{};
  std::uint32_t sequence = 0;  // an answer, and kInvalidateEnd, has its question's
  std::uint32_t length = 0;    // bytes of the whole record
  std::uint32_t descriptor_count = 0;
};
static_assert(sizeof(PagingHeader) == 24);

// Rights of pages, and what is needed of them.
enum PagingRights : std::uint32_t { kPagingRead = 1U, kPagingWrite = 2U };

// Share what is mapped at [address, address + length): whole chunks. Several questions may be under
// way; they may be answered in any order.
struct ShareRange {
  PagingHeader header;
  std::uint64_t address, length;
  // What the fault needs. Says how the file of a shared mapping is to be opened (for writing only
  // where the mapping allows it); the answer tells all rights that the pages have.
  std::uint32_t rights;
  std::uint32_t reserved;
};
static_assert(sizeof(ShareRange) == 48);

// Descriptor: an arena (ShareArenaRequest says what that is) in which pieces of later records lie.
// The first one sent on a channel has number 0, the next 1: these numbers, not the handles of
// kShareArena, are the `source` of pieces in SharedRange.
struct PagingArena {
  PagingHeader header;
  std::uint64_t page_size;
};
static_assert(sizeof(PagingArena) == 32);

struct SharedPiece {
  MemoryPiece memory;    // kDescriptor: an index into this record's descriptors
  std::uint32_t rights;  // PagingRights of the pages
  std::uint32_t reserved;
};
static_assert(sizeof(SharedPiece) == 56);

// The answer describes [address of the question, end): pieces in ascending order, whole pages,
// inside the range. What no piece covers isn't mapped or may not even be read. `end` lies before
// the question's end where there are too many pieces or descriptors; the daemon then asks again for
// the rest, if it wants it. A piece that couldn't be shared is kProcMem.
struct SharedRange {
  PagingHeader header;
  std::uint64_t end;
  std::uint32_t error;  // 0, or an errno value: nothing could be found out (then no pieces)
  std::uint32_t piece_count;
  SharedPiece pieces[];
};
static_assert(sizeof(SharedRange) == 40);

enum class InvalidateReason : std::uint32_t {
  kUnmap = 1,  // the addresses will name nothing, or something else: munmap, mremap, mmap over them
  kDrop,       // the same memory with new contents: madvise(DONTNEED, FREE, REMOVE)
  kProtect,    // rights are taken away: mprotect
};

// These addresses are about to change. After the answer no worker touches the old pages, and faults
// on the range wait until kInvalidateEnd (same sequence number), which the program sends after the
// answer, when its system call is done, also if that failed. The range needn't be whole pages or
// chunks and may hold memory that was never shared. Several may be under way at once, at most
// kInvalidationsMax; a program that dies needs no end.
struct Invalidate {
  PagingHeader header;
  std::uint64_t address, length;
  InvalidateReason reason;
  std::uint32_t reserved;
};
static_assert(sizeof(Invalidate) == 48);
inline constexpr std::uint32_t kInvalidationsMax = 128;

}  // namespace uroce::abi
