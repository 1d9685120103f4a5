#pragma once

// How memory.cc and what stands beside it go through a program's memory: from a list of pieces, or
// the range that a peer names, to regions, and from these to runs of bytes. For these files only.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/work_request.h"
#include "base/prefetch.h"
#include "dataplane/qp/memory/memory.h"
#include "mmu/key_table.h"
#include "mmu/region.h"

namespace uroce {

// Part of a region, as one call touches it.
struct MemoryPart {
  const Region& region;
  std::uint64_t address = 0;
  std::size_t length = 0;
  std::uint64_t ahead = 0;  // bytes behind it that the same message will touch
};

// The memory at `address` isn't resident: kGranted if it is now; else raises the role's fault,
// unless it is under way or has failed just now.
Access fault(const MemoryScope& scope, const MemoryPart& part, std::uint64_t address, bool write);

// Others come first: the role parks, kNotResident. REQUIRES: scope.withheld.
Access withhold(const MemoryScope& scope, const MemoryPart& part);

// Calls copy(span, done) for each contiguous run of the part, `done` bytes into it.
// REQUIRES: the part was granted.
template <typename Copy>
Access for_each_span(const MemoryScope& scope, const MemoryPart& part, bool write, Copy&& copy) {
  if (scope.withheld) [[unlikely]] {
    return withhold(scope, part);
  }
  // As a rule it is one run.
  if (std::byte* const host =
          part.length == 0 ? nullptr : part.region.mapped(part.address, part.length)) {
    return copy(Span{.host = host, .length = part.length}, 0);
  }
  std::size_t done = 0;
  while (done < part.length) {
    Span span;
    Access access = part.region.translate(part.address + done, part.length - done, write, &span);
    if (access == Access::kNotResident) {
      access = fault(scope, part, part.address + done, write);
      if (access == Access::kGranted) {
        continue;
      }
    }
    if (access == Access::kGranted) {
      access = scope.mapped_only && span.host == nullptr ? Access::kLost : copy(span, done);
    }
    if (access != Access::kGranted) {
      return access;
    }
    done += span.length;
  }
  return Access::kGranted;
}

// Calls use(region, address, length, done, following) for each part of the list that
// [offset, offset + length) touches; `following`: what the entry holds behind it.
template <typename Use>
Access for_each_sge(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
                    std::uint32_t length, std::uint32_t rights, Use&& use) {
  std::uint32_t done = 0;
  for (const abi::Sge& sge : sges) {
    if (done == length) {
      break;
    }
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto part =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(length - done, sge.length - offset));
    const Region* region = nullptr;
    const std::uint64_t address = sge.address + offset;
    Access access = scope.keys.check(sge.lkey, scope.pd, address, part, rights, &region);
    if (access == Access::kGranted) {
      access = use(*region, address, part, done, sge.length - offset - part);
    }
    if (access != Access::kGranted) {
      return access;
    }
    done += part;
    offset = 0;
  }
  return Access::kGranted;
}

// Where bytes lie that were granted, if they may be copied at once: mapped in one run, and nothing
// else is waited for. nullptr: the long way finds out what to do.
[[gnu::always_inline]] inline std::byte* mapped_bytes(const MemoryScope& scope,
                                                      const Region& region, std::uint64_t address,
                                                      std::uint32_t length) {
  const bool waits = scope.withheld || (scope.slot != nullptr && scope.slot->slow != nullptr);
  return waits ? nullptr : region.mapped(address, length);
}

// The same of bytes that a region's key grants.
[[gnu::always_inline]] inline std::byte* mapped_bytes(const MemoryScope& scope, std::uint32_t key,
                                                      std::uint64_t address, std::uint32_t length,
                                                      std::uint32_t rights) {
  const Region* region = nullptr;
  return scope.keys.check(key, scope.pd, address, length, rights, &region) == Access::kGranted
             ? mapped_bytes(scope, *region, address, length)
             : nullptr;
}

// The same of bytes in the first entry of a list, where nearly all are.
[[gnu::always_inline]] inline std::byte* mapped_bytes(const MemoryScope& scope,
                                                      std::span<const abi::Sge> sges,
                                                      std::uint64_t offset, std::uint32_t length,
                                                      std::uint32_t rights) {
  if (length == 0 || sges.empty() || offset + length > sges.front().length) {
    return nullptr;
  }
  return mapped_bytes(scope, sges.front().lkey, sges.front().address + offset, length, rights);
}

// A packet's `length` bytes were stored at `host`, and `ahead` bytes of its message will be behind
// them. Where those of the packet after the next one go is brought towards the processor, which
// would wait there for one line after the other; it may be mapped elsewhere, which does no harm.
// What is longer than a packet is copied at once, by the processor's own ways to look ahead.
inline constexpr std::size_t kStoreAhead = 4'096;  // bytes: of the largest packet
inline void prefetch_later_stores(const std::byte* host, std::size_t length, std::uint64_t ahead) {
  if (length <= kStoreAhead && ahead > kStoreAhead) {
    prefetch_lines_to_second_cache(reinterpret_cast<std::uintptr_t>(host) + length + kStoreAhead,
                                   std::min<std::uint64_t>(length, ahead - kStoreAhead));
  }
}

// A range that was granted to a peer: where the region has it.
struct Granted {
  const Region* region = nullptr;
  std::uint64_t address = 0;
};

inline Access find_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights,
                          Granted* granted) {
  granted->address = range.address;
  return scope.keys.check_remote(range.rkey, scope.user(), &granted->address, range.length, rights,
                                 &granted->region);
}

}  // namespace uroce
