#include "dataplane/qp/memory/proc_mem_access.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/page.h"
#include "dataplane/qp/memory/recheck.h"
#include "mmu/mirror/mirror.h"

namespace uroce {
namespace {

std::uint64_t new_slot_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

ProcMemSlot& slow_slot(const MemoryScope& scope) {
  auto& slow = scope.slot->slow;
  if (slow == nullptr) {
    slow = std::make_unique<ProcMemSlot>(new_slot_number());
  }
  return *slow;
}

Access park_for(const MemoryScope& scope, std::uint64_t address) {
  scope.slot->park(page_floor(address), scope.now);
  scope.slot->for_copy = true;
  return Access::kNotResident;
}

std::unique_ptr<ProcMemCopy> make_copy(ProcMemCopy::Kind kind, const Region& region,
                                       std::uint64_t address, std::size_t bytes) {
  auto copy = std::make_unique<ProcMemCopy>();
  copy->kind = kind;
  copy->program = region.program();
  copy->key = region.key();
  copy->segments.push_back({.address = address, .length = 0, .key = region.key()});
  copy->bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return copy;
}

// False if there is no room now; the sink makes sure that the role is resumed.
bool set_off(const MemoryScope& scope, ProcMemSlot& slow, std::unique_ptr<ProcMemCopy>* copy) {
  (*copy)->qpn = scope.qpn;
  (*copy)->role = scope.role;
  (*copy)->slot = slow.id;
  const bool reads = (*copy)->kind == ProcMemCopy::Kind::kRead;
  if (!scope.faults->copy(copy)) {
    return false;
  }
  ++(reads ? slow.reading : slow.storing);
  return true;
}

void read_from(const MemoryScope& scope, ProcMemSlot& slow, const Region& region,
               std::uint64_t address, std::uint64_t length, std::size_t needed) {
  const std::size_t most = std::min<std::uint64_t>(length, ProcMemCopy::kBytesMax);
  auto copy = make_copy(ProcMemCopy::Kind::kRead, region, address, most);
  copy->length = most;
  copy->needed = needed;
  copy->message = scope.message;
  (void)set_off(scope, slow, &copy);
}

// So that the helper works while the rest of this one is used.
void read_ahead(const MemoryScope& scope, ProcMemSlot& slow, const Region& region,
                const ProcMemCopy& copy, std::uint64_t message_end) {
  const bool here = std::any_of(slow.reads.begin(), slow.reads.end(),
                                [&](const auto& other) { return other->first() == copy.end(); });
  if (slow.reading == 0 && !here && copy.used >= copy.length / 2 && message_end > copy.end()) {
    read_from(scope, slow, region, copy.end(), message_end - copy.end(), 0);
  }
}

// kNotResident if there is no room now; the sink makes sure that the role is resumed.
Access submit_collected(const MemoryScope& scope, ProcMemSlot& slow) {
  if (!set_off(scope, slow, &slow.open)) {
    return Access::kNotResident;
  }
  slow.open.reset();
  slow.open_length = 0;
  slow.open_segments = 0;
  return Access::kGranted;
}

// Where nothing can continue before the copy is submitted.
Access store_or_park(const MemoryScope& scope, ProcMemSlot& slow) {
  if (const Access access = recheck(scope, *slow.open, true); access != Access::kGranted) {
    return access;
  }
  const Access access = submit_collected(scope, slow);
  return access == Access::kNotResident ? park_for(scope, slow.open->first()) : access;
}

// Where it may as well be submitted later.
Access store_if_possible(const MemoryScope& scope, ProcMemSlot& slow) {
  Access access = recheck(scope, *slow.open, false);
  if (access == Access::kGranted) {
    access = submit_collected(scope, slow);
  }
  return access == Access::kNotResident ? Access::kGranted : access;
}

void mark_collected(ProcMemSlot& slow) {
  slow.open_length = slow.open == nullptr ? 0 : slow.open->length;
  slow.open_segments = slow.open == nullptr ? 0 : slow.open->segments.size();
  slow.open_last = slow.open == nullptr ? 0 : slow.open->segments.back().length;
}

// Drops the stores that a packet collected before it parked: it will collect them again.
void collect_anew(ProcMemSlot& slow) {
  if (slow.open == nullptr || slow.open_segments == 0) {
    slow.open.reset();
    return;
  }
  slow.open->length = slow.open_length;
  slow.open->segments.resize(slow.open_segments);
  slow.open->segments.back().length = slow.open_last;
}

// The part of memory that begins with a span, without bytes so far.
ProcMemCopy::Segment segment_at(const Region& region, std::uint64_t address) {
  return {.address = address,
          .length = 0,
          .key = region.key(),
          .changes = region.mirror() == nullptr ? 0 : region.mirror()->changes()};
}

bool goes_on(const ProcMemCopy::Segment& segment, const ProcMemCopy::Segment& next) {
  return segment.key == next.key && segment.changes == next.changes &&
         segment.address + segment.length == next.address;
}

bool has_room(const ProcMemCopy& open, const Region& region, const ProcMemCopy::Segment& next,
              std::size_t length) {
  return open.program == region.program() && open.length + length <= ProcMemCopy::kBytesMax &&
         (goes_on(open.segments.back(), next) || open.segments.size() < ProcMemCopy::kSegmentsMax);
}

}  // namespace

const std::byte* fetch(const MemoryScope& scope, const Region& region, const Span& span,
                       std::uint64_t behind, Access* access) {
  ProcMemSlot& slow = slow_slot(scope);
  const std::uint64_t first = span.remote_address;
  const std::uint64_t end = first + span.length;
  std::erase_if(slow.reads, [&](const auto& copy) { return copy->message != scope.message; });
  for (auto at = slow.reads.begin(); at != slow.reads.end(); ++at) {
    ProcMemCopy& copy = **at;
    if (copy.key != region.key() || first < copy.first()) {
      continue;
    }
    if (copy.outcome != Access::kGranted && first < copy.first() + copy.needed) {
      *access = copy.outcome;
      slow.reads.erase(at);
      return nullptr;
    }
    if (copy.outcome == Access::kGranted && end <= copy.end()) {
      copy.used = std::max<std::size_t>(copy.used, end - copy.first());
      const std::byte* const bytes = copy.bytes.get() + (first - copy.first());
      read_ahead(scope, slow, region, copy, end + behind);
      return bytes;
    }
  }
  if (slow.reading == 0) {  // otherwise it may be the one on its way
    read_from(scope, slow, region, first, span.length + behind, span.length);
  }
  *access = park_for(scope, first);
  return nullptr;
}

void fetched(const MemoryScope& scope) {
  if (scope.slot != nullptr && scope.slot->slow != nullptr) {
    std::erase_if(scope.slot->slow->reads,
                  [](const auto& copy) { return copy->used >= copy->length; });
  }
}

Access begin_stores(const MemoryScope& scope) {
  if (scope.slot == nullptr || scope.slot->slow == nullptr) {
    return Access::kGranted;
  }
  ProcMemSlot& slow = *scope.slot->slow;
  if (slow.outcome != Access::kGranted) {
    return slow.outcome;
  }
  if (slow.ended) {
    return Access::kGranted;
  }
  if (slow.ending) {
    return park_for(scope, scope.slot->page);
  }
  collect_anew(slow);
  const bool full = slow.open != nullptr && slow.open->length >= ProcMemSlot::kSetOff;
  return full && slow.storing != 0 ? park_for(scope, scope.slot->page) : Access::kGranted;
}

Access collect(const MemoryScope& scope, const Region& region, const Span& span,
               const std::byte* source) {
  ProcMemSlot& slow = slow_slot(scope);
  if (slow.ended) {
    return Access::kGranted;
  }
  const ProcMemCopy::Segment segment = segment_at(region, span.remote_address);
  if (slow.open != nullptr && !has_room(*slow.open, region, segment, span.length)) {
    if (const Access access = store_or_park(scope, slow); access != Access::kGranted) {
      return access;
    }
  }
  if (slow.open == nullptr) {
    slow.open =
        make_copy(ProcMemCopy::Kind::kWrite, region, span.remote_address, ProcMemCopy::kBytesMax);
    slow.open->segments.back() = segment;
  }
  ProcMemCopy& open = *slow.open;
  if (!goes_on(open.segments.back(), segment)) {
    open.segments.push_back(segment);
  }
  std::memcpy(open.bytes.get() + open.length, source, span.length);
  open.segments.back().length += span.length;
  open.length += span.length;
  return Access::kGranted;
}

Access end_stores(const MemoryScope& scope, bool more) {
  if (scope.slot == nullptr || scope.slot->slow == nullptr) {
    return Access::kGranted;
  }
  ProcMemSlot& slow = *scope.slot->slow;
  if (slow.ended) {
    slow.ended = more;
    return Access::kGranted;
  }
  if (more) {
    mark_collected(slow);
    const bool sets_off = slow.open_length >= ProcMemSlot::kSetOff && slow.storing == 0;
    return sets_off ? store_if_possible(scope, slow) : Access::kGranted;
  }
  if (slow.open != nullptr) {
    if (const Access access = store_or_park(scope, slow); access != Access::kGranted) {
      return access;
    }
  }
  slow.ending = slow.storing != 0;
  return slow.ending ? park_for(scope, scope.slot->page) : Access::kGranted;
}

Access swap_or_add(const MemoryScope& scope, const Region& region, const Span& span,
                   const ProcMemAtomic& atomic, std::uint64_t* original) {
  ProcMemSlot& slow = slow_slot(scope);
  if (const auto done = std::exchange(slow.atomic, nullptr); done != nullptr) {
    *original = done->original;
    return done->outcome;
  }
  if (slow.storing == 0) {
    auto copy = make_copy(atomic.kind, region, span.remote_address, 0);
    copy->compare = atomic.compare;
    copy->operand = atomic.operand;
    (void)set_off(scope, slow, &copy);
  }
  return park_for(scope, span.remote_address);
}

void forget_proc_mem(const MemoryScope& scope) {
  if (scope.slot != nullptr) {
    scope.slot->slow.reset();
  }
}

}  // namespace uroce
