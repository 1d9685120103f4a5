#pragma once

// Where bytes that would be gathered into frames lie, for copies that need none. The keys are
// looked up and the rights checked as gather() and read_remote() do; anything but kGranted means
// that the bytes must go as frames, be it that they aren't resident, aren't mapped, aren't allowed,
// or lie in too many runs.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/qp/direct/byte_runs.h"
#include "dataplane/qp/memory/memory.h"

namespace uroce {

// Appends the runs of `length` bytes of the list, `offset` bytes into it. REQUIRES: as gather();
// scope.mapped_only.
Access locate(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, ByteRuns* runs);

// Of a range that a peer may read. REQUIRES: scope.mapped_only.
Access locate_remote(const MemoryScope& scope, const RemoteRange& range, ByteRuns* runs);

}  // namespace uroce
