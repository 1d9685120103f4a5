#pragma once

// One daemon's end of one connection: its own memory with the frames it sends, and the other
// daemon's memory once that has connected. It is used for one other daemon only: the next one gets
// new memory, so a disconnected daemon can't read or disturb anything. It exists until the last
// frame of either memory has been released, and is then destroyed.
//
// Values that the other daemon writes are read once and compared with a bound. An invalid one marks
// the link as broken(): nothing more is received from it or sent to it, and the port ends it.
//
// Threads: send(), receive() and the naps of a queue by its worker; allocate() and release() under
// the port's lock, which receive() takes itself; join() while no queue uses the link.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/spin_lock.h"
#include "base/unique_fd.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/port/shm/shm_buffer.h"
#include "dataplane/port/shm/shm_memory.h"

namespace uroce {

// The data that the other daemon passes when it connects.
struct ShmPeer {
  ShmMemory memory;
  std::vector<UniqueFd> wakeups;  // eventfds, one for each of its queues
  std::uint32_t mtu = 0;
};

class ShmLink {
 public:
  // Frames up to this length are copied completely, and their slot is returned at once and reused
  // next. Slots of longer ones are reused after all others.
  static constexpr std::uint32_t kWholeMax = 512;
  static constexpr std::uint32_t kSlotsPerQueue = 2'048;
  // One kHeldShare-th of the other's slots may be held by received frames here: further frames are
  // copied completely, so that the other never runs out of slots.
  static constexpr std::uint32_t kHeldShare = 2;
  // At most three of kLentParts parts of our slots are lent to the other, which is more than it may
  // hold: further frames for it are refused, and the last part is for frames that are looped back
  // to the port's own address.
  static constexpr std::uint32_t kLentParts = 4;

  // `lock`: of the port.
  static Result<std::unique_ptr<ShmLink>> make(std::uint16_t queues, std::uint32_t mtu,
                                               SpinLock& lock);

  void join(ShmPeer peer);
  [[nodiscard]] const ShmMemory& memory() const { return memory_; }

  // Like the functions of Port with the same names. REQUIRES: the frames are of this link.
  std::uint32_t send(std::uint16_t queue, Frame* const* frames, std::uint32_t count,
                     QueueCounters* counters);
  // Number of frames waiting in the rings of a queue, at most `max`.
  [[nodiscard]] std::uint32_t waiting(std::uint16_t queue, std::uint32_t max);
  // Receives into the empty buffers into[0..count), fills the first n, and returns n.
  std::uint32_t receive(std::uint16_t queue, ShmBuffer* const* into, std::uint32_t count,
                        QueueCounters* counters);

  std::uint32_t allocate(Frame** frames, std::uint32_t count);
  // Releases a frame that wasn't sent, or the slot of a received one, which the other sees after
  // publish_returns().
  void release(ShmBuffer& buffer);
  void publish_returns();

  void fall_asleep(std::uint16_t queue) { nap(queue, true); }
  void wake_up(std::uint16_t queue) { nap(queue, false); }

  [[nodiscard]] bool broken() const { return broken_.load(std::memory_order_relaxed); }
  // Whether all its frames are in its own pool, or with the other daemon.
  [[nodiscard]] bool idle() const {
    return ours_out_.load(std::memory_order_acquire) == 0 &&
           theirs_held_.load(std::memory_order_acquire) == 0;
  }

 private:
  struct alignas(64) Queue {
    std::uint32_t sent = 0;
    std::uint32_t rung_for = 0;  // the last nap of the other's worker that was ended
    std::uint32_t next = 0;      // the ring of the other that is read first
    std::uint32_t naps = 0;
  };
  enum class Lent : std::uint8_t { kNothing, kShortFrame, kLongFrame };
  ShmLink(ShmMemory memory, std::uint16_t queues, std::uint32_t mtu, SpinLock& lock);
  void nap(std::uint16_t queue, bool asleep);
  void ring(Queue& self, std::uint16_t queue);
  void take_returns();
  std::uint32_t lend(std::uint32_t count);
  std::uint32_t waiting_in(std::uint32_t ring);
  std::uint32_t receive_from(std::uint32_t ring, ShmBuffer* const* into, std::uint32_t count,
                             QueueCounters* counters);
  bool fill(ShmBuffer& buffer, ShmDescriptor found);
  void give_back(std::uint32_t slot);

  SpinLock& lock_;
  ShmMemory memory_;
  ShmPool pool_;
  // For each slot: what is lent to the other daemon. Set by the sending worker (release), read when
  // the slot is returned (acquire).
  std::vector<std::atomic<Lent>> lent_slots_;
  std::vector<Queue> queues_;
  std::unique_ptr<ShmPeer> peer_;
  std::vector<std::uint32_t> taken_;           // entries read of each of the other's rings
  std::uint32_t returned_ = 0;                 // slots given back to the other
  std::uint32_t returns_seen_ = 0;             // slots that came back
  std::atomic<std::uint32_t> ours_out_{0};     // frames being built here
  std::atomic<std::uint32_t> lent_count_{0};   // slots that the other holds
  std::atomic<std::uint32_t> theirs_held_{0};  // received frames that hold a slot
  std::atomic<bool> broken_{false};
};

}  // namespace uroce
