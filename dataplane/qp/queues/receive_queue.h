#pragma once

// The daemon's side of a receive queue (of one QP, or shared by several): the consumer of the ring
// in which the program posts receive work requests. Each entry is copied once; later changes by the
// program have no effect.

#include <array>
#include <cstdint>

#include "abi/ring.h"
#include "abi/work_request.h"
#include "base/result.h"
#include "base/spin_lock.h"
#include "dataplane/qp/queues/ring_resize.h"

namespace uroce {

class EventSink;

inline constexpr std::uint32_t kSgeMax = 32;

// A receive work request in the daemon's hands.
struct ReceiveEntry {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
  std::array<abi::Sge, kSgeMax> sges{};
};

class ReceiveQueue {
 public:
  enum class [[nodiscard]] Take : std::uint8_t{kTaken, kEmpty, kBroken};

  // Who takes from it.
  enum class Users : std::uint8_t {
    kOneQp,      // its own queue pair
    kOneWorker,  // a shared receive queue, and there is one worker
    kWorkers,    // a shared receive queue: queue pairs of several workers, so taking locks
  };

  struct Config {
    std::uint32_t handle = 0;  // the queue pair's number, or that of the shared receive queue
    // The ring. Its memory outlives the queue.
    abi::RingControl* control = nullptr;
    const std::byte* entries = nullptr;
    std::uint32_t entry_count = 0;  // a power of two
    std::uint32_t stride = 0;       // bytes from one entry to the next
    std::uint32_t sge_max = 0;      // scatter/gather entries of a work request
    Users users = Users::kOneQp;
  };

  explicit ReceiveQueue(const Config& config);

  // Takes the next work request. kBroken: the ring's contents are invalid (a distance larger than
  // the ring, too many SGEs); a shared queue announces kSrqErr once. Only the SGEs in use are
  // copied. May announce kSrqLimitReached.
  Take take(ReceiveEntry* entry, EventSink& events);

  // Arms the limit event: kSrqLimitReached is announced, once, when fewer than `limit` work
  // requests are left (IBTA vol. 1, 10.2.9.3); 0 disarms. Returns true if fewer are there already:
  // then the caller announces it, and nothing is armed. REQUIRES: with kOneWorker, that worker.
  [[nodiscard]] bool arm(std::uint32_t limit);
  // Frees the slot of the work request that was taken last, which has completed. For a queue pair's
  // own queue: its consumer index thus counts completions, and what lies behind it is outstanding
  // if the daemon dies. Must be called before the completion is pushed, since a program that has
  // polled it relies on the slot. A shared queue's slots are freed when they are taken.
  void release();
  // For a shared queue whose completions can't be reported any more: nothing is taken from it, as
  // if it were broken. Returns false if it was broken before. REQUIRES: as arm().
  [[nodiscard]] bool set_broken();
  // What is armed; 0: nothing. REQUIRES: as arm().
  [[nodiscard]] std::uint32_t limit();

  // Moves to another ring with entries of the same size, with the entries that weren't taken yet;
  // the control block stays. To be called repeatedly until it returns true (RingResize). EINVAL,
  // with nothing changed, if they don't fit into the new ring. REQUIRES: as arm(); entry_count is a
  // power of two.
  Result<bool> resize(std::byte* entries, std::uint32_t entry_count, RingResize* move);

  [[nodiscard]] bool empty() const;

  // For a queue pair that goes to RESET: discards posted work requests, without completions.
  void reset();

  // From now on, until reset(), the program rings the doorbell for each receive that it posts.
  // REQUIRES: the queue belongs to one queue pair.
  void ask_for_doorbells();

  [[nodiscard]] std::uint32_t handle() const { return handle_; }
  [[nodiscard]] std::uint32_t sge_max() const { return sge_max_; }

 private:
  [[nodiscard]] bool locks() const { return users_ == Users::kWorkers; }
  // Pairs with the program's release store after it has written the entry.
  [[nodiscard]] std::uint32_t waiting() const {
    return control_->producer.value.load(std::memory_order_acquire) - consumer_;
  }
  Take broken(EventSink& events);

  std::uint32_t handle_;
  abi::RingControl* control_;
  const std::byte* entries_;
  std::uint32_t mask_;
  std::uint32_t stride_;
  std::uint32_t sge_max_;
  std::uint32_t consumer_ = 0;  // ours
  std::uint32_t posted_ = 0;    // the program's, when take() last looked
  std::uint32_t limit_ = 0;     // armed; 0: not
  Users users_;
  bool broken_ = false;
  SpinLock lock_;
};

}  // namespace uroce
