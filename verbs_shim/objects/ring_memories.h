#pragma once

// The daemon's memories with the rings of a context's queue pairs, many in each
// (abi/ring_records.h). A memory is mapped from the creation of its first queue pair until its last
// one is destroyed. The newest shared one stays until another is needed, so that repeatedly
// creating and destroying a queue pair needs no mmap.

#include <pthread.h>

#include <cstdint>
#include <memory>

#include "verbs_shim/objects/mapping.h"
#include "verbs_shim/socket/client.h"

namespace uroce::shim {

class RingMemories {
 private:
  struct Memory {
    std::uint32_t number = 0;
    std::uint32_t users = 0;
    bool shared = false;  // for the rings of many queue pairs
    Mapping mapping;
    std::unique_ptr<Memory> next{};
  };

 public:
  // A queue pair's reference to one of them.
  class Reference {
   public:
    Reference() = default;
    ~Reference() {
      if (owner_ != nullptr) {
        owner_->release(*memory_);
      }
    }
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    [[nodiscard]] const Mapping& mapping() const { return memory_->mapping; }

   private:
    friend class RingMemories;
    RingMemories* owner_ = nullptr;
    Memory* memory_ = nullptr;
  };

  RingMemories() = default;
  RingMemories(const RingMemories&) = delete;
  RingMemories& operator=(const RingMemories&) = delete;

  // 0 or an errno value. REQUIRES: `reference` is empty, and is destroyed before this.
  int acquire(Client& client, std::uint32_t number, Reference* reference);

  // Held around a fork, so that the child finds the data consistent.
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  bool acquire_mapped(std::uint32_t number, Reference* reference);
  std::unique_ptr<Memory> take(const Memory& memory);
  void release(Memory& memory);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards the following
  std::unique_ptr<Memory> newest_;  // the head of a list; the others all have users
};

}  // namespace uroce::shim
