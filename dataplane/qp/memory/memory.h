#pragma once

// The only place in qp that reaches a program's memory: local scatter/gather lists by lkey, remote
// ranges by rkey. Every call looks the key up again, because the region may have gone since the
// last packet.
//
// Anything but kGranted means that the caller must not go on: a frame that was being built has to
// be put back. kNotResident means that the role waits for a fault: the same call is made again once
// that is resolved; copying the same bytes to the same place twice is harmless, atomics are applied
// only when all else is granted. A fault that can't be resolved makes that next call fail.

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/work_request.h"
#include "dataplane/wire/build.h"
#include "mmu/faults/page_fault.h"
#include "mmu/key_table.h"

namespace uroce {

// Whose memory, and the table that says where it is.
// What follows `qpn` is for memory that is paged on demand; without them, memory that isn't
// resident is lost.
struct MemoryScope {
  const KeyTable& keys;
  PdId pd = 0;
  std::uint32_t qpn = 0;  // the queue pair: some windows are for one only
  FaultSink* faults = nullptr;
  FaultSlot* slot = nullptr;  // of the role that asks
  FaultRole role = FaultRole::kRequester;
  Time now = 0;
  // Of which the bytes are that are read: read ahead for one message, they are stale for another.
  std::uint32_t message = 0;
  // Nothing is touched: the role parks until others have had their turn (FaultSink::withhold).
  bool withheld = false;
  // Nothing but what is mapped here, and resident: the rest is lost.
  bool mapped_only = false;

  [[nodiscard]] KeyUser user() const { return {.pd = pd, .qpn = qpn}; }
};

// The bytes that a list can hold. SGEs of length 0 hold none, and their keys are never looked at.
[[nodiscard]] std::uint64_t total_length(std::span<const abi::Sge> sges);

// Appends `length` bytes of the list, starting `offset` bytes into it, to a frame: one pass of copy
// and ICRC. REQUIRES: offset + length <= total_length(sges).
Access gather(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, FrameWriter& writer);

// Copies received bytes into the list, `offset` bytes into it. `more`: others of the same message
// follow. What isn't mapped may then be written with them, and turn out to be lost only then.
// REQUIRES: offset + length <= total_length(sges).
Access scatter(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
               const std::byte* source, std::uint32_t length, bool more = false);

// A range that a peer names. A length of 0 is granted whatever the key (IBTA vol. 1, C9-88).
struct RemoteRange {
  std::uint32_t rkey = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint64_t ahead = 0;  // bytes behind it that the same message will touch
};
Access check_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights);
Access read_remote(const MemoryScope& scope, const RemoteRange& range, FrameWriter& writer);
// As scatter() with `more` where range.ahead isn't 0.
Access write_remote(const MemoryScope& scope, const RemoteRange& range, const std::byte* source);

// 64-bit atomics on a range of 8 bytes. *original: the value before, in host order, as the
// program's processor sees it. REQUIRES: range.length == 8, range.address is 8-aligned.
Access compare_swap_remote(const MemoryScope& scope, const RemoteRange& range,
                           std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);
Access fetch_add_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t add,
                        std::uint64_t* original);

// Stores 8 bytes at once (annex A19), under the right to write. REQUIRES: as above.
Access store_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t value);

// A FLUSH (annex A19): everything stored before is visible to everybody, and with
// kAccessFlushPersistent among `rights` on stable storage too. `whole_region`: of the range only
// the key counts.
Access flush_remote(const MemoryScope& scope, const RemoteRange& range, bool whole_region,
                    std::uint32_t rights);

}  // namespace uroce
