#include "dataplane/qp/memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "mmu/copy.h"
#include "mmu/durable_memory.h"
#include "mmu/flush_queue.h"
#include "mmu/mirror.h"
#include "mmu/remote_batch.h"

namespace uroce {
namespace {

// Part of a region, as one call touches it.
struct Part {
  const Region& region;
  std::uint64_t address = 0;
  std::size_t length = 0;
  std::uint64_t ahead = 0;  // bytes behind it that the same message will touch
};

// The memory at `address` isn't resident: kGranted if it is now; else raises the role's fault,
// unless it is under way or has failed just now.
Access fault(const MemoryScope& scope, const Part& part, std::uint64_t address, bool write) {
  if (scope.faults == nullptr || scope.slot == nullptr) {
    return Access::kLost;
  }
  FaultSlot& slot = *scope.slot;
  const std::uint64_t program_address = part.region.program_address(address);
  if (slot.failed != Access::kGranted && slot.failed_page == Mirror::page_down(program_address)) {
    return std::exchange(slot.failed, Access::kGranted);
  }
  if (!slot.waiting) {
    const FaultRequest request{
        .key = part.region.key(),
        .address = program_address,
        .length = part.length - (address - part.address),
        .ahead = part.ahead,
        .limit = part.region.program_address(part.region.iova()) + part.region.length(),
        .write = write};
    const AtOnce at_once = scope.faults->at_once(request, *part.region.mirror(), scope.qpn);
    if (at_once == AtOnce::kDone) {
      slot.page = FaultSlot::kNoPage;
      return Access::kGranted;
    }
    slot.park(Mirror::page_down(program_address), scope.now);
    if (at_once == AtOnce::kLater) {
      return Access::kNotResident;
    }
    slot.failed = Access::kGranted;
    ++slot.ticket;
    slot.waiting = scope.faults->raise(request, part.region, scope.qpn, scope.role, slot.ticket);
  }
  return Access::kNotResident;
}

// Persistence takes as long as the disk does, so it is asked for as a fault is: the role parks.
// Where nobody takes faults, the caller waits for the disk.
Access flush_to_disk(const MemoryScope& scope, const Part& part) {
  const std::uint64_t address = part.region.program_address(part.address);
  if (scope.faults == nullptr || scope.slot == nullptr) {
    return part.region.mirror() != nullptr ? Access::kLost
                                           : part.region.durable()->sync(address, part.length);
  }
  FaultSlot& slot = *scope.slot;
  if (slot.waiting) {
    return Access::kNotResident;
  }
  if (std::exchange(slot.flushing, false)) {
    slot.page = FaultSlot::kNoPage;
    return std::exchange(slot.failed, Access::kGranted);
  }
  slot.failed = Access::kGranted;
  ++slot.ticket;
  slot.park(Mirror::page_down(address), scope.now);
  slot.waiting = scope.faults->flush({.address = address, .length = part.length}, part.region,
                                     scope.qpn, scope.role, slot.ticket);
  slot.flushing = slot.waiting;
  return Access::kNotResident;
}

// Calls copy(span, done) for each contiguous run of the part, `done` bytes into it.
// REQUIRES: the part was granted.
template <typename Copy>
Access for_each_span(const MemoryScope& scope, const Part& part, bool write, Copy&& copy) {
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
    if (access != Access::kGranted) {
      return access;
    }
    if (!copy(span, done)) {
      return Access::kLost;
    }
    done += span.length;
  }
  return Access::kGranted;
}

// Bytes of the message behind `span`, which ends `done` bytes into the part, that lie behind it in
// the program too, and are reached the slow way as it is.
std::uint64_t run_behind(const Part& part, const Span& span, std::size_t done) {
  const std::uint64_t address = part.address + done;
  const std::uint64_t end = part.region.iova() + part.region.length();
  const std::uint64_t wanted = std::min(
      {part.length - done + part.ahead, end - address, std::uint64_t{RemoteBatch::kBytes}});
  Span behind;
  return wanted != 0 &&
                 part.region.translate(address, wanted, false, &behind) == Access::kGranted &&
                 behind.host == nullptr &&
                 behind.remote_address == span.remote_address + span.length
             ? behind.length
             : 0;
}

// Appends a granted part to the frame. The plain case is one fused pass; what the daemon has no
// mapping of is read straight into the frame and summed there.
Access append_range(const MemoryScope& scope, const Part& part, std::size_t following,
                    FrameWriter& writer) {
  return for_each_span(scope, part, false, [&](const Span& span, std::size_t done) {
    if (span.host != nullptr) {
      return guarded([&] { writer.append(span.host, span.length, following); });
    }
    if (scope.batch != nullptr && !part.region.null()) {
      const std::byte* const bytes =
          scope.batch->read(part.region.remote(), span.remote_address, span.length,
                            run_behind(part, span, done + span.length));
      if (bytes != nullptr) {
        writer.append(bytes, span.length);
      }
      return bytes != nullptr;
    }
    if (!copy_from(part.region, span, writer.cursor())) {
      return false;
    }
    writer.appended(span.length);
    return true;
  });
}

// `more`: packets of the same message follow, which will store behind these bytes.
Access store_range(const MemoryScope& scope, const Part& part, const std::byte* source, bool more) {
  if (scope.batch == nullptr || scope.slot == nullptr || part.region.null()) {
    return for_each_span(scope, part, true, [&](const Span& span, std::size_t done) {
      return copy_to(part.region, span, source + done);
    });
  }
  bool* const lost = &scope.slot->store_lost;
  const Access access = for_each_span(scope, part, true, [&](const Span& span, std::size_t done) {
    if (span.host != nullptr) {
      return copy_to(part.region, span, source + done);
    }
    scope.batch->write(part.region.remote(), span.remote_address, source + done, span.length,
                       more || done + span.length < part.length, lost);
    return true;
  });
  if (access != Access::kGranted) {
    return access;
  }
  const bool stored = more ? !std::exchange(*lost, false) : scope.batch->finish(lost);
  return stored ? Access::kGranted : Access::kLost;
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

// A range that was granted to a peer: where the region has it.
struct Granted {
  const Region* region = nullptr;
  std::uint64_t address = 0;
};

Access find_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights,
                   Granted* granted) {
  granted->address = range.address;
  return scope.keys.check_remote(range.rkey, scope.user(), &granted->address, range.length, rights,
                                 &granted->region);
}

// Finds the 8 bytes of an atomic and applies `operation` to them.
template <typename Operation>
Access atomic_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights,
                     Operation&& operation) {
  Granted granted;
  Access access = find_remote(scope, range, rights, &granted);
  if (access != Access::kGranted) {
    return access;
  }
  Span span;
  const Part part{.region = *granted.region, .address = granted.address, .length = range.length};
  do {
    access = part.region.translate(part.address, part.length, true, &span);
  } while (access == Access::kNotResident &&
           (access = fault(scope, part, part.address, true)) == Access::kGranted);
  if (access != Access::kGranted) {
    return access;
  }
  // The peer's address is aligned, but a program may have registered memory so that its own isn't,
  // or so that the 8 bytes lie in two mappings. No atomic can be made of these.
  const std::uint64_t address =
      span.host != nullptr ? reinterpret_cast<std::uint64_t>(span.host) : span.remote_address;
  if (span.length < sizeof(std::uint64_t) || address % alignof(std::uint64_t) != 0) {
    return Access::kLost;
  }
  return operation(*granted.region, span) ? Access::kGranted : Access::kLost;
}

}  // namespace

std::uint64_t total_length(std::span<const abi::Sge> sges) {
  std::uint64_t total = 0;
  for (const abi::Sge& sge : sges) {
    total += sge.length;
  }
  return total;
}

Access gather(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, FrameWriter& writer) {
  return for_each_sge(
      scope, sges, offset, length, 0,
      [&](const Region& region, std::uint64_t address, std::uint32_t part, std::uint32_t,
          std::size_t following) {
        return append_range(scope, {region, address, part, following}, following, writer);
      });
}

Access scatter(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
               const std::byte* source, std::uint32_t length, bool more) {
  return for_each_sge(scope, sges, offset, length, kAccessLocalWrite,
                      [&](const Region& region, std::uint64_t address, std::uint32_t part,
                          std::uint32_t done, std::size_t following) {
                        return store_range(scope, {region, address, part, following}, source + done,
                                           more || done + part < length);
                      });
}

Access check_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights) {
  Granted granted;
  return range.length == 0 ? Access::kGranted : find_remote(scope, range, rights, &granted);
}

Access read_remote(const MemoryScope& scope, const RemoteRange& range, FrameWriter& writer) {
  Granted granted;
  if (range.length == 0) {
    return Access::kGranted;
  }
  const Access access = find_remote(scope, range, kAccessRemoteRead, &granted);
  return access != Access::kGranted
             ? access
             : append_range(scope, {*granted.region, granted.address, range.length, range.ahead}, 0,
                            writer);
}

Access write_remote(const MemoryScope& scope, const RemoteRange& range, const std::byte* source) {
  Granted granted;
  if (range.length == 0) {
    return Access::kGranted;
  }
  const Access access = find_remote(scope, range, kAccessRemoteWrite, &granted);
  return access != Access::kGranted
             ? access
             : store_range(scope, {*granted.region, granted.address, range.length, range.ahead},
                           source, range.ahead != 0);
}

Access compare_swap_remote(const MemoryScope& scope, const RemoteRange& range,
                           std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
  return atomic_remote(scope, range, kAccessRemoteAtomic,
                       [&](const Region& region, const Span& span) {
                         return compare_and_swap(region, span, compare, swap, original);
                       });
}

Access fetch_add_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t add,
                        std::uint64_t* original) {
  return atomic_remote(scope, range, kAccessRemoteAtomic,
                       [&](const Region& region, const Span& span) {
                         return fetch_and_add(region, span, add, original);
                       });
}

Access store_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t value) {
  return atomic_remote(
      scope, range, kAccessRemoteWrite,
      [&](const Region& region, const Span& span) { return store_word(region, span, value); });
}

Access flush_remote(const MemoryScope& scope, const RemoteRange& range, bool whole_region,
                    std::uint32_t rights) {
  RemoteRange flushed = range;
  if (whole_region) {
    flushed.length = 0;
  }
  Granted granted;
  const Access access = find_remote(scope, flushed, rights, &granted);
  if (access != Access::kGranted) {
    return access;
  }
  // What this worker has stored, everybody sees from here on.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if ((rights & kAccessFlushPersistent) == 0) {
    return Access::kGranted;
  }
  const Region& region = *granted.region;
  return flush_to_disk(scope, {.region = region,
                               .address = whole_region ? region.iova() : granted.address,
                               .length = whole_region ? region.length() : range.length});
}

}  // namespace uroce
