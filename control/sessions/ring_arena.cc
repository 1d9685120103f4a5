#include "control/sessions/ring_arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/page.h"

namespace uroce::control {

RingArena::Rings::~Rings() {
  if (arena_ != nullptr) {
    arena_->release(*memory_, index_);
  }
}

// Whole pages: a queue pair with small rings touches one page, and no cache line adjacent to
// another queue pair's, which a processor would prefetch while the other side writes it. With ten
// thousand queue pairs in turn a message costs a third more if they are packed closer.
std::size_t RingArena::slot_of(std::size_t bytes) { return page_ceil(kControls + bytes); }

Result<RingArena::Rings> RingArena::take(std::size_t bytes) {
  UROCE_CHECK(bytes > 0);
  const std::size_t slot = slot_of(bytes);
  const auto find = [&] { return bytes <= kPackedMax ? with_room(slot) : make(slot, slot, false); };
  auto found = find();
  if (!found) {
    drop_unused();
    found = find();
  }
  if (!found) {
    return found.error();
  }
  Memory& memory = **found;
  std::uint32_t index = memory.fresh;
  if (memory.released.empty()) {
    ++memory.fresh;
  } else {
    index = memory.released.back();
    memory.released.pop_back();
    std::memset(memory.shared.data() + index * slot, 0, kControls);
  }
  if (++memory.used == memory.slots && memory.packed) {
    std::erase(sizes_[slot].with_room, &memory);
  }
  Rings rings;
  rings.arena_ = this;
  rings.memory_ = &memory;
  rings.index_ = index;
  return Result<Rings>(std::move(rings));
}

// If there is room for only one more slot, a memory of that length is used.
Result<RingArena::Memory*> RingArena::with_room(std::size_t slot) {
  Size& size = sizes_[slot];
  if (!size.with_room.empty()) {
    return size.with_room.back();
  }
  size.with_room.reserve(size.memories + 1);
  const std::size_t bytes = std::clamp(std::bit_ceil(size.bytes), kBytesMin, kBytesMax);
  auto made = make(slot, bytes / slot * slot, true);
  if (!made) {
    made = make(slot, slot, true);
  }
  if (made) {
    ++size.memories;
    size.bytes += (*made)->shared.length();
    size.with_room.push_back(*made);
  }
  return made;
}

Result<RingArena::Memory*> RingArena::make(std::size_t slot, std::size_t bytes, bool packed) {
  if (last_number_ == UINT32_MAX) {
    return Error{ENOMEM, "this session has used up its numbers for ring memory; reopen the device"};
  }
  auto descriptor = account_->charge(Limit::kDescriptors);
  if (!descriptor) {
    return descriptor.error();
  }
  auto shared = SealedMemory::create("uroce-qp", bytes, *account_);
  if (!shared) {
    return shared.error();
  }
  if (packed) {
    shared->populate();
  }
  auto memory = std::make_unique<Memory>();
  memory->number = ++last_number_;
  memory->descriptor = std::move(*descriptor);
  memory->slot = slot;
  memory->packed = packed;
  memory->slots = static_cast<std::uint32_t>(shared->length() / slot);
  memory->released.reserve(memory->slots);
  memory->shared = std::move(*shared);
  Memory* const made = memory.get();
  UROCE_CHECK(memories_.emplace(made->number, std::move(memory)).second);
  return made;
}

// The memory isn't accessed: a program could make each page fault take long (docs/threats.md), and
// a session that ends releases all of it.
void RingArena::release(Memory& memory, std::uint32_t index) {
  if (!memory.packed) {
    memories_.erase(memory.number);
    return;
  }
  Size& size = sizes_.at(memory.slot);
  if (memory.used-- == memory.slots) {
    size.with_room.push_back(&memory);
  }
  memory.released.push_back(index);
  if (memory.used == 0 && size.with_room.size() > 1) {
    drop(size, memory);
  }
}

void RingArena::drop(Size& size, Memory& memory) {
  std::erase(size.with_room, &memory);
  --size.memories;
  size.bytes -= memory.shared.length();
  memories_.erase(memory.number);
}

void RingArena::drop_unused() {
  for (auto& [slot, size] : sizes_) {
    const auto unused = std::find_if(size.with_room.begin(), size.with_room.end(),
                                     [](const Memory* memory) { return memory->used == 0; });
    if (unused != size.with_room.end()) {
      drop(size, **unused);
    }
  }
}

Result<RingArena::Shared> RingArena::share(std::uint32_t number) {
  const auto at = memories_.find(number);
  if (at == memories_.end()) {
    return Error{EINVAL, "there is no memory of rings " + std::to_string(number)};
  }
  Memory& memory = *at->second;
  Shared shared{.descriptor = {}, .length = memory.shared.length(), .packed = memory.packed};
  if (memory.packed) {
    auto copy = memory.shared.copy_descriptor();
    if (!copy) {
      return copy.error();
    }
    shared.descriptor = std::move(*copy);
  } else {
    shared.descriptor = memory.shared.take_descriptor();
    memory.descriptor = Charge();
  }
  if (!shared.descriptor.valid()) {
    return Error{EINVAL, "the memory of rings " + std::to_string(number) +
                             " is one queue pair's, and was shown already"};
  }
  return Result<Shared>(std::move(shared));
}

}  // namespace uroce::control
