#pragma once

// Locates the bytes that would be gathered into frames, for copies without frames. Looks up the
// keys and checks the rights as gather() and read_remote() do. Anything but kGranted means that
// frames are needed, because the bytes aren't resident, aren't mapped, aren't allowed, or lie in
// too many runs.

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
