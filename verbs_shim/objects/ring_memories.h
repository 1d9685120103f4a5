#pragma once

// The daemon's memories that the rings of a context's queue pairs lie in, many in each
// (abi/ring_records.h): mapped when the first of its queue pairs is made, and until the last one
// goes. The newest one that many may lie in stays until another is needed, so that making and
// destroying one queue pair over and over maps nothing.

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
    bool shared = false;  // many may lie in it
    Mapping mapping;
    std::unique_ptr<Memory> next{};
  };

 public:
  // A queue pair's use of one of them.
  class Hold {
   public:
    Hold() = default;
    ~Hold() {
      if (owner_ != nullptr) {
        owner_->release(*memory_);
      }
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    [[nodiscard]] const Mapping& mapping() const { return memory_->mapping; }

   private:
    friend class RingMemories;
    RingMemories* owner_ = nullptr;
    Memory* memory_ = nullptr;
  };

  RingMemories() = default;
  RingMemories(const RingMemories&) = delete;
  RingMemories& operator=(const RingMemories&) = delete;

  // 0 or an errno value. REQUIRES: `hold` has none yet, and goes before this.
  int hold(Client& client, std::uint32_t number, Hold* hold);

  // Around a fork: nobody is half-way through a change.
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  bool hold_mapped(std::uint32_t number, Hold* hold);
  std::unique_ptr<Memory> take(const Memory& memory);
  void release(Memory& memory);

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards what follows
  std::unique_ptr<Memory> newest_;  // the head of a list; no other one is without users
};

}  // namespace uroce::shim
