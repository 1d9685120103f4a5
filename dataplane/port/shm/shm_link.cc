#include "dataplane/port/shm/shm_link.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "base/event_fd.h"
#include "base/prefetch.h"
#include "dataplane/port/port.h"

namespace uroce {
namespace {

// Space in front of a frame in its slot, so that the payload of most frames of a large message
// (after untagged Ethernet, IPv4, UDP and a BTH alone) is aligned to a cache line.
constexpr std::size_t kSlotHeadroom = 128 - 54;

// An odd number of cache lines: frames then spread over all sets of the caches.
constexpr std::uint32_t stride_of(std::uint32_t capacity) {
  return static_cast<std::uint32_t>(
      ((kSlotHeadroom + capacity + kCacheLine - 1) / kCacheLine | 1U) * kCacheLine);
}

}  // namespace

Result<std::unique_ptr<ShmLink>> ShmLink::make(std::uint16_t queues, std::uint32_t mtu,
                                               SpinLock& lock) {
  auto memory = ShmMemory::make(std::min(kSlotsPerQueue * queues, kShmSlotsMax),
                                stride_of(mtu + kEthernetOverhead));
  if (!memory) {
    return memory.error();
  }
  return std::unique_ptr<ShmLink>(new ShmLink(std::move(*memory), queues, mtu, lock));
}

ShmLink::ShmLink(ShmMemory memory, std::uint16_t queues, std::uint32_t mtu, SpinLock& lock)
    : lock_(lock),
      memory_(std::move(memory)),
      pool_(memory_.slots(), mtu + kEthernetOverhead),
      lent_slots_(memory_.slots()),
      queues_(queues) {
  for (std::uint32_t slot = 0; slot < memory_.slots(); ++slot) {
    pool_.add(slot, memory_.slot(slot) + kSlotHeadroom).link = this;
  }
}

void ShmLink::join(ShmPeer peer) {
  taken_.assign(peer.wakeups.size(), 0);
  peer_ = std::make_unique<ShmPeer>(std::move(peer));
}

std::uint32_t ShmLink::send(std::uint16_t queue, Frame* const* frames, std::uint32_t count,
                            QueueCounters* counters) {
  if (peer_ == nullptr || broken()) {
    return 0;
  }
  Queue& self = queues_[queue];
  ShmRing& ring = memory_.records().rings[queue];
  const ShmMemory& theirs = peer_->memory;
  // Acquire pairs with the other's release: it has read the entries that are written now.
  const std::uint32_t used =
      self.sent - theirs.records().taken[queue].value.load(std::memory_order_acquire);
  if (used > kShmRingEntries) {
    broken_.store(true, std::memory_order_relaxed);
    return 0;
  }
  const std::uint32_t sent = lend(std::min(count, kShmRingEntries - used));
  counters->sent(frames, sent);
  for (std::uint32_t i = 0; i < sent; ++i) {
    const Frame& frame = *frames[i];
    const ShmBuffer& buffer = ShmBuffer::of(frame);
    const ShmDescriptor descriptor{
        .slot = static_cast<std::uint16_t>(buffer.slot),
        .offset = static_cast<std::uint16_t>(frame.data - memory_.slot(buffer.slot)),
        .length = static_cast<std::uint16_t>(frame.length),
        .flags = frame.icrc_left_out ? ShmDescriptor::kIcrcLeftOut : std::uint16_t{0}};
    lent_slots_[buffer.slot].store(frame.length <= kWholeMax ? Lent::kShortFrame : Lent::kLongFrame,
                                   std::memory_order_release);
    ring.entries[self.sent++ % kShmRingEntries].store(std::bit_cast<std::uint64_t>(descriptor),
                                                      std::memory_order_relaxed);
  }
  if (sent > 0) {
    ours_out_.fetch_sub(sent, std::memory_order_release);
    ring.sent.value.store(self.sent, std::memory_order_release);
    this->ring(self, queue);
  }
  return sent;
}

// The number of frames, of `count`, that may be lent to the other now. Counted before comparing
// with the limit, so that concurrent senders don't exceed it together.
std::uint32_t ShmLink::lend(std::uint32_t count) {
  const std::uint32_t most = memory_.slots() / kLentParts * (kLentParts - 1);
  if (lent_count_.fetch_add(count, std::memory_order_relaxed) + count <= most) [[likely]] {
    return count;
  }
  {
    const std::lock_guard<SpinLock> guard(lock_);
    take_returns();
  }
  const std::uint32_t lent = lent_count_.load(std::memory_order_relaxed);
  const std::uint32_t too_many = std::min(count, lent - std::min(lent, most));
  lent_count_.fetch_sub(too_many, std::memory_order_relaxed);
  return count - too_many;
}

// Each of our queues always wakes the same queue of theirs, which reads its ring.
void ShmLink::ring(Queue& self, std::uint16_t queue) {
  const std::size_t theirs = queue % peer_->wakeups.size();
  // Orders the store of `sent` before the load of their nap, as they store the nap before loading
  // `sent` (nap()): at least one of the two sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t nap =
      peer_->memory.records().naps[theirs].value.load(std::memory_order_relaxed);
  if ((nap & 1U) != 0 && nap != self.rung_for) {
    self.rung_for = nap;
    EventFd::ring(peer_->wakeups[theirs].get());
  }
}

void ShmLink::nap(std::uint16_t queue, bool asleep) {
  std::uint32_t& naps = queues_[queue].naps;
  if (((naps & 1U) != 0) != asleep) {
    memory_.records().naps[queue].value.store(++naps, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

std::uint32_t ShmLink::waiting_in(std::uint32_t ring) {
  const std::uint32_t waiting =
      peer_->memory.records().rings[ring].sent.value.load(std::memory_order_acquire) - taken_[ring];
  if (waiting > kShmRingEntries) {
    broken_.store(true, std::memory_order_relaxed);
    return 0;
  }
  return waiting;
}

std::uint32_t ShmLink::waiting(std::uint16_t queue, std::uint32_t max) {
  std::uint32_t sum = 0;
  if (peer_ != nullptr && !broken()) {
    for (std::size_t ring = queue; ring < taken_.size() && sum < max; ring += queues_.size()) {
      sum += waiting_in(static_cast<std::uint32_t>(ring));
    }
  }
  return std::min(sum, max);
}

std::uint32_t ShmLink::receive(std::uint16_t queue, ShmBuffer* const* into, std::uint32_t count,
                               QueueCounters* counters) {
  Queue& self = queues_[queue];
  const auto queues = static_cast<std::uint32_t>(queues_.size());
  const auto rings = static_cast<std::uint32_t>(taken_.size());
  if (rings <= queue) {
    return 0;
  }
  const std::uint32_t mine = (rings - queue + queues - 1) / queues;
  std::uint32_t filled = 0;
  for (std::uint32_t i = 0; i < mine && filled < count; ++i) {
    const std::uint32_t ring = queue + (self.next + i) % mine * queues;
    filled += receive_from(ring, into + filled, count - filled, counters);
  }
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): rings > queue, so it is one at least
  self.next = (self.next + 1) % mine;
  return filled;
}

std::uint32_t ShmLink::receive_from(std::uint32_t ring, ShmBuffer* const* into, std::uint32_t count,
                                    QueueCounters* counters) {
  const ShmRing& theirs = peer_->memory.records().rings[ring];
  const std::uint32_t waits = std::min({waiting_in(ring), count, kBurstMax});
  std::uint32_t filled = 0;
  std::uint32_t wrong = 0;
  std::array<std::uint32_t, kBurstMax> done_with;
  std::uint32_t done = 0;
  const auto entry = [&](std::uint32_t i) {
    return std::bit_cast<ShmDescriptor>(
        theirs.entries[(taken_[ring] + i) % kShmRingEntries].load(std::memory_order_relaxed));
  };
  // All headers come from the cache of the other's processor: all are prefetched before the first
  // is waited for.
  for (std::uint32_t i = 0; i < waits; ++i) {
    if (const ShmDescriptor found = entry(i); found.slot < peer_->memory.slots()) {
      prefetch_lines(peer_->memory.slot(found.slot) + found.offset, Frame::kHeadBytes);
    }
  }
  for (std::uint32_t i = 0; i < waits; ++i) {
    const ShmDescriptor found = entry(i);
    if (found.slot >= peer_->memory.slots() ||
        std::uint32_t{found.offset} + found.length > peer_->memory.stride()) {
      broken_.store(true, std::memory_order_relaxed);
      ++wrong;
      continue;
    }
    ShmBuffer& buffer = *into[filled];
    if (found.length > buffer.frame.capacity) {
      ++wrong;  // their MTU is larger
      done_with[done++] = found.slot;
      continue;
    }
    ++filled;
    if (!fill(buffer, found)) {
      done_with[done++] = found.slot;
    }
  }
  if (waits == 0) {
    return 0;
  }
  taken_[ring] += waits;
  memory_.records().taken[ring].value.store(taken_[ring], std::memory_order_release);
  counters->missed(wrong);
  if (done > 0) {
    const std::lock_guard<SpinLock> guard(lock_);
    std::for_each_n(done_with.begin(), done, [this](std::uint32_t slot) { give_back(slot); });
    publish_returns();
  }
  return filled;
}

// True if the frame still needs its slot.
bool ShmLink::fill(ShmBuffer& buffer, ShmDescriptor found) {
  Frame& frame = buffer.frame;
  const std::byte* const theirs = peer_->memory.slot(found.slot) + found.offset;
  frame.length = found.length;
  frame.icrc_left_out = (found.flags & ShmDescriptor::kIcrcLeftOut) != 0;
  if (found.length <= kWholeMax ||
      theirs_held_.load(std::memory_order_relaxed) >= peer_->memory.slots() / kHeldShare) {
    std::memcpy(frame.data, theirs, found.length);
    return false;
  }
  // The checked headers must not change afterwards; payload may, as that only harms the other.
  std::memcpy(frame.data, theirs, Frame::kHeadBytes);
  frame.lent = theirs;
  buffer.link = this;
  buffer.slot = found.slot;
  theirs_held_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

std::uint32_t ShmLink::allocate(Frame** frames, std::uint32_t count) {
  take_returns();
  std::uint32_t taken = 0;
  while (taken < count) {
    ShmBuffer* const buffer = pool_.take();
    if (buffer == nullptr) {
      break;
    }
    buffer->frame.icrc_left_out = true;
    frames[taken++] = &buffer->frame;
  }
  ours_out_.fetch_add(taken, std::memory_order_relaxed);
  return taken;
}

// Slots that the other has returned. One that it doesn't hold can't be returned.
//
// The slot of a long frame is reused after all others: its lines are in the cache of the other's
// processor, from which each would have to be fetched; later they are in a shared cache, or in
// memory. For few lines that costs less than loading the next slot's from memory.
void ShmLink::take_returns() {
  if (peer_ == nullptr || broken()) {
    return;
  }
  const ShmRecords& theirs = peer_->memory.records();
  const std::uint32_t end = theirs.returned.value.load(std::memory_order_acquire);
  const std::uint32_t came = end - returns_seen_;
  if (came > kShmSlotsMax) {
    broken_.store(true, std::memory_order_relaxed);
    return;
  }
  for (; returns_seen_ != end; ++returns_seen_) {
    const std::uint32_t slot =
        theirs.returns[returns_seen_ % kShmSlotsMax].load(std::memory_order_relaxed);
    const Lent lent = slot < memory_.slots()
                          ? lent_slots_[slot].exchange(Lent::kNothing, std::memory_order_acquire)
                          : Lent::kNothing;
    if (lent == Lent::kNothing) {
      broken_.store(true, std::memory_order_relaxed);
      return;
    }
    ShmBuffer& buffer = pool_.at(slot);
    lent == Lent::kShortFrame ? pool_.put_first(buffer) : pool_.put_last(buffer);
  }
  lent_count_.fetch_sub(came, std::memory_order_relaxed);
}

void ShmLink::release(ShmBuffer& buffer) {
  if (buffer.received) {
    give_back(buffer.slot);
    theirs_held_.fetch_sub(1, std::memory_order_release);
  } else {
    pool_.put_first(buffer);
    ours_out_.fetch_sub(1, std::memory_order_release);
  }
}

void ShmLink::give_back(std::uint32_t slot) {
  memory_.records().returns[returned_++ % kShmSlotsMax].store(slot, std::memory_order_relaxed);
}

void ShmLink::publish_returns() {
  memory_.records().returned.value.store(returned_, std::memory_order_release);
}

}  // namespace uroce
