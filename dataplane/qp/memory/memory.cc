#include "dataplane/qp/memory/memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/page.h"
#include "dataplane/qp/memory/memory_parts.h"
#include "dataplane/qp/memory/proc_mem_access.h"
#include "mmu/copies/copy.h"
#include "mmu/copies/ordered_copy.h"
#include "mmu/copies/small_copy.h"
#include "mmu/faults/flush_queue.h"
#include "mmu/mirror/mirror.h"
#include "mmu/pinned/durable_memory.h"

namespace uroce {

Access fault(const MemoryScope& scope, const MemoryPart& part, std::uint64_t address, bool write) {
  if (scope.faults == nullptr || scope.slot == nullptr) {
    return Access::kLost;
  }
  FaultSlot& slot = *scope.slot;
  const std::uint64_t program_address = part.region.program_address(address);
  if (slot.failed != Access::kGranted && slot.failed_page == page_floor(program_address)) {
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
    const InlinePopulate outcome =
        scope.faults->populate_inline(request, *part.region.mirror(), scope.qpn);
    if (outcome == InlinePopulate::kDone) {
      slot.page = FaultSlot::kNoPage;
      return Access::kGranted;
    }
    slot.park(page_floor(program_address), scope.now);
    if (outcome == InlinePopulate::kLater) {
      return Access::kNotResident;
    }
    slot.failed = Access::kGranted;
    ++slot.ticket;
    slot.waiting = scope.faults->raise(request, part.region, scope.qpn, scope.role, slot.ticket);
  }
  return Access::kNotResident;
}

Access withhold(const MemoryScope& scope, const MemoryPart& part) {
  scope.slot->park(page_floor(part.region.program_address(part.address)), scope.now);
  scope.faults->withhold(scope.qpn);
  return Access::kNotResident;
}

namespace {

// Persistence takes as long as the disk does, so it is requested like a page fault: the role parks.
// If there is no fault service, the caller waits for the disk.
Access flush_to_disk(const MemoryScope& scope, const MemoryPart& part) {
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
  slot.park(page_floor(address), scope.now);
  slot.waiting = scope.faults->flush({.address = address, .length = part.length}, part.region,
                                     scope.qpn, scope.role, slot.ticket);
  slot.flushing = slot.waiting;
  return Access::kNotResident;
}

constexpr Access granted_if(bool there) { return there ? Access::kGranted : Access::kLost; }

// The number of the message's bytes behind `span`, which ends `done` bytes into the part, that
// follow it in the program's memory too, and are accessed through /proc/PID/mem as well.
std::uint64_t run_behind(const MemoryPart& part, const Span& span, std::size_t done) {
  const std::uint64_t address = part.address + done;
  const std::uint64_t end = part.region.iova() + part.region.length();
  const std::uint64_t wanted = std::min(
      {part.length - done + part.ahead, end - address, std::uint64_t{2 * ProcMemCopy::kBytesMax}});
  Span behind;
  return wanted != 0 &&
                 part.region.translate(address, wanted, false, &behind) == Access::kGranted &&
                 behind.host == nullptr &&
                 behind.remote_address == span.remote_address + span.length
             ? behind.length
             : 0;
}

// A separate function: what guarded() saves for its jump would slow down small messages.
[[gnu::noinline]] Access append_guarded(const std::byte* host, std::size_t length,
                                        std::size_t following, FrameWriter& writer) {
  return granted_if(guarded([&] { writer.append(host, length, following); }));
}

// Appends a granted part to the frame. The plain case is one fused pass.
Access append_range(const MemoryScope& scope, const MemoryPart& part, std::size_t following,
                    FrameWriter& writer) {
  return for_each_span(scope, part, false, [&](const Span& span, std::size_t done) {
    if (span.host != nullptr) {
      return append_guarded(span.host, span.length, following, writer);
    }
    if (uses_proc_mem(scope, part.region)) {
      Access access = Access::kGranted;
      const std::byte* const bytes =
          fetch(scope, part.region, span, run_behind(part, span, done + span.length), &access);
      if (bytes != nullptr) {
        writer.append(bytes, span.length);
      }
      return access;
    }
    if (!copy_from(part.region, span, writer.cursor())) {
      return Access::kLost;
    }
    writer.appended(span.length);
    return Access::kGranted;
  });
}

Access store_range(const MemoryScope& scope, const MemoryPart& part, const std::byte* source) {
  return for_each_span(scope, part, true, [&](const Span& span, std::size_t done) {
    if (span.host == nullptr && uses_proc_mem(scope, part.region)) {
      return collect(scope, part.region, span, source + done);
    }
    const bool there = copy_to(part.region, span, source + done);
    if (span.host != nullptr) {
      prefetch_later_stores(span.host, span.length, part.ahead + part.length - done - span.length);
    }
    return granted_if(there);
  });
}

// `ahead`: the number of bytes behind these that the same message will fill.
[[gnu::always_inline]] inline Access store_at_hand(std::byte* host, const std::byte* source,
                                                   std::uint32_t length, std::uint64_t ahead) {
  if (length <= kSmallCopyMax) {
    return granted_if(copy_small_in_order(host, source, length));
  }
  const bool there = copy_mapped_in_order(host, source, length);
  prefetch_later_stores(host, length, ahead);
  return granted_if(there);
}

// `store` is all that a packet stores, or a part of it. `more`: further stores of the same message
// follow, behind these bytes.
template <typename Store>
Access store_packet(const MemoryScope& scope, bool more, Store&& store) {
  Access access = begin_stores(scope);
  if (access == Access::kGranted) {
    access = store();
  }
  if (access == Access::kGranted) {
    access = end_stores(scope, more);
  }
  if (access != Access::kGranted && access != Access::kNotResident) {
    forget_proc_mem(scope);
  }
  return access;
}

// What was read for the packet isn't needed any more once the packet is complete.
Access end_reads(const MemoryScope& scope, Access access) {
  if (access == Access::kGranted) {
    fetched(scope);
  }
  return access;
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
  const MemoryPart part{
      .region = *granted.region, .address = granted.address, .length = range.length};
  if (scope.withheld) [[unlikely]] {
    return withhold(scope, part);
  }
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
  if ((scope.mapped_only && span.host == nullptr) || span.length < sizeof(std::uint64_t) ||
      address % alignof(std::uint64_t) != 0) {
    return Access::kLost;
  }
  return operation(*granted.region, span);
}

}  // namespace

std::uint64_t total_length(std::span<const abi::Sge> sges) {
  std::uint64_t total = 0;
  for (const abi::Sge& sge : sges) {
    total += sge.length;
  }
  return total;
}

namespace {

// gather() for the other cases: several entries, several runs, or memory that has to be waited for.
[[gnu::noinline]] Access gather_parts(const MemoryScope& scope, std::span<const abi::Sge> sges,
                                      std::uint64_t offset, std::uint32_t length,
                                      FrameWriter& writer) {
  const auto append = [&](const Region& region, std::uint64_t address, std::uint32_t part,
                          std::uint32_t, std::size_t following) {
    return append_range(scope, MemoryPart{region, address, part, following}, following, writer);
  };
  return end_reads(scope, for_each_sge(scope, sges, offset, length, 0, append));
}

// write_remote() for the same cases, or by the key of a window.
[[gnu::noinline]] Access write_parts(const MemoryScope& scope, const RemoteRange& range,
                                     const std::byte* source) {
  return store_packet(scope, range.ahead != 0, [&] {
    Granted granted;
    const Access access = find_remote(scope, range, kAccessRemoteWrite, &granted);
    return access != Access::kGranted
               ? access
               : store_range(scope, {*granted.region, granted.address, range.length, range.ahead},
                             source);
  });
}

}  // namespace

Access gather(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
              std::uint32_t length, FrameWriter& writer) {
  if (const std::byte* const host = mapped_bytes(scope, sges, offset, length, 0)) {
    if (length <= kSmallCopyMax) {
      const bool there = copy_small(writer.cursor(), host, length);
      writer.appended(length);
      return granted_if(there);
    }
    const std::size_t following = sges.front().length - offset - length;
    return append_guarded(host, length, following, writer);
  }
  return gather_parts(scope, sges, offset, length, writer);
}

Access scatter(const MemoryScope& scope, std::span<const abi::Sge> sges, std::uint64_t offset,
               const std::byte* source, std::uint32_t length, bool more) {
  if (std::byte* const host = mapped_bytes(scope, sges, offset, length, kAccessLocalWrite)) {
    const std::uint64_t following = sges.front().length - offset - length;
    return store_at_hand(host, source, length, more ? following : 0);
  }
  const auto store = [&](const Region& region, std::uint64_t address, std::uint32_t part,
                         std::uint32_t done, std::size_t following) {
    return store_range(scope, MemoryPart{region, address, part, more ? following : 0},
                       source + done);
  };
  return store_packet(scope, more, [&] {
    return for_each_sge(scope, sges, offset, length, kAccessLocalWrite, store);
  });
}

Access check_remote(const MemoryScope& scope, const RemoteRange& range, std::uint32_t rights) {
  Granted granted;
  const Access access =
      range.length == 0 ? Access::kGranted : find_remote(scope, range, rights, &granted);
  if (access != Access::kGranted) {
    forget_proc_mem(scope);
  }
  return access;
}

Access read_remote(const MemoryScope& scope, const RemoteRange& range, FrameWriter& writer) {
  Granted granted;
  if (range.length == 0) {
    return Access::kGranted;
  }
  Access access = find_remote(scope, range, kAccessRemoteRead, &granted);
  if (access == Access::kGranted) {
    access = append_range(scope, {*granted.region, granted.address, range.length, range.ahead}, 0,
                          writer);
  }
  return end_reads(scope, access);
}

Access write_remote(const MemoryScope& scope, const RemoteRange& range, const std::byte* source) {
  if (range.length == 0) {
    return Access::kGranted;
  }
  if (std::byte* const host =
          mapped_bytes(scope, range.rkey, range.address, range.length, kAccessRemoteWrite)) {
    return store_at_hand(host, source, range.length, range.ahead);
  }
  return write_parts(scope, range, source);
}

Access compare_swap_remote(const MemoryScope& scope, const RemoteRange& range,
                           std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
  const ProcMemAtomic slow{ProcMemCopy::Kind::kCompareSwap, compare, swap};
  return atomic_remote(
      scope, range, kAccessRemoteAtomic, [&](const Region& region, const Span& span) {
        return span.host == nullptr && uses_proc_mem(scope, region)
                   ? swap_or_add(scope, region, span, slow, original)
                   : granted_if(compare_and_swap(region, span, compare, swap, original));
      });
}

Access fetch_add_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t add,
                        std::uint64_t* original) {
  const ProcMemAtomic slow{ProcMemCopy::Kind::kFetchAdd, 0, add};
  return atomic_remote(scope, range, kAccessRemoteAtomic,
                       [&](const Region& region, const Span& span) {
                         return span.host == nullptr && uses_proc_mem(scope, region)
                                    ? swap_or_add(scope, region, span, slow, original)
                                    : granted_if(fetch_and_add(region, span, add, original));
                       });
}

Access store_remote(const MemoryScope& scope, const RemoteRange& range, std::uint64_t value) {
  const auto store = [&](const Region& region, const Span& span) {
    return span.host == nullptr && uses_proc_mem(scope, region)
               ? collect(scope, region, {nullptr, span.remote_address, sizeof(value)},
                         reinterpret_cast<const std::byte*>(&value))
               : granted_if(store_word(region, span, value));
  };
  return store_packet(scope, false,
                      [&] { return atomic_remote(scope, range, kAccessRemoteWrite, store); });
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
  // From here on, everything that this worker has stored is visible to all.
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
