#include "verbs_shim/objects/ring_memories.h"

#include <cerrno>
#include <new>
#include <utility>

#include "abi/ring_records.h"

namespace uroce::shim {

// Calls the daemon without the lock, since fork() takes it: two threads that need the same memory
// may both map it, and one of the mappings is dropped.
int RingMemories::acquire(Client& client, std::uint32_t number, Reference* reference) {
  lock();
  const bool mapped = acquire_mapped(number, reference);
  unlock();
  if (mapped) {
    return 0;
  }
  std::unique_ptr<Memory> memory(new (std::nothrow) Memory);
  if (memory == nullptr) {
    return ENOMEM;
  }
  abi::HandleRequest request{};
  request.handle = number;
  abi::MapRingsReply reply{};
  Descriptors received;
  int error = client.call("ibv_create_qp", abi::Command::kMapRings, request, reply, &received);
  if (error == 0) {
    memory->number = number;
    memory->shared = reply.shared != 0;
    error = memory->mapping.map(received.peek(0), reply.length, PROT_READ | PROT_WRITE,
                                memory->shared ? abi::kRingMemoryMax : 0);
  }
  if (error != 0) {
    return error;
  }
  std::unique_ptr<Memory> unused;  // unmapped without the lock
  lock();
  if (!acquire_mapped(number, reference)) {
    if (newest_ != nullptr && newest_->users == 0) {
      unused = take(*newest_);
    }
    memory->next = std::move(newest_);
    newest_ = std::move(memory);
    acquire_mapped(number, reference);
  }
  unlock();
  return 0;
}

// Whether it is mapped already. REQUIRES: the lock. New queue pairs are usually in the newest
// memory.
bool RingMemories::acquire_mapped(std::uint32_t number, Reference* reference) {
  for (Memory* memory = newest_.get(); memory != nullptr; memory = memory->next.get()) {
    if (memory->number == number) {
      ++memory->users;
      reference->owner_ = this;
      reference->memory_ = memory;
      return true;
    }
  }
  return false;
}

// Removes it from the list. REQUIRES: the lock.
std::unique_ptr<RingMemories::Memory> RingMemories::take(const Memory& memory) {
  std::unique_ptr<Memory>* link = &newest_;
  while (link->get() != &memory) {
    link = &(*link)->next;
  }
  std::unique_ptr<Memory> taken = std::move(*link);
  *link = std::move(taken->next);
  return taken;
}

void RingMemories::release(Memory& memory) {
  std::unique_ptr<Memory> gone;  // unmapped without the lock
  lock();
  const bool stays = memory.shared && &memory == newest_.get();
  if (--memory.users == 0 && !stays) {
    gone = take(memory);
  }
  unlock();
}

}  // namespace uroce::shim
