#pragma once

// A FLUSH to persistence, and its way from a worker to the thread that waits for disks and back.
// The role that encountered it parks as it does for a page fault. Disks are slow, so flushes have
// separate records: waiting flushes leave enough for page faults.

#include <cstdint>
#include <memory>

#include "mmu/access.h"
#include "mmu/faults/page_fault.h"
#include "mmu/faults/service_queue.h"

namespace uroce {

class DurableMemory;
class Mirror;

// What was written to `length` bytes at the program's `address` is to be on disk.
struct FlushRequest {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

struct Flush : WaitingRole {
  FlushRequest request{};
  std::uint64_t user = 0;  // of the queue pair, as QpConfig has it
  // One of them: on-demand or pinned memory. Held only while the flush is on its way to the flush
  // thread and there; if the region has been removed meanwhile, its memory is unmapped with this.
  std::shared_ptr<Mirror> mirror{};
  std::shared_ptr<const DurableMemory> durable{};

  // Returns when it is on disk, or can't be: kNoRight for on-demand memory that isn't backed by a
  // disk.
  [[nodiscard]] Access write_back() const;
  void release() {
    mirror.reset();
    durable.reset();
  }
};

class FlushQueue final : public ServiceQueue<Flush, 512> {
 public:
  using ServiceQueue::ServiceQueue;
};

}  // namespace uroce
