#pragma once

// The live objects of a context that events can name: completion queues, queue pairs, shared
// receive queues. An event carries the cookie that the object was created with; it may arrive when
// the object is long gone, so a cookie is an index and a generation, never a pointer.

#include <pthread.h>

#include <cstdint>

namespace uroce::shim {

class Registry {
 public:
  enum class Kind : std::uint8_t { kCq, kQp, kSrq };

  Registry() = default;
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Returns the object's cookie; 0: out of memory.
  std::uint64_t add(Kind kind, void* object);
  void remove(std::uint64_t cookie);

  // Held around a fork, so that the child finds the data consistent.
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

  // Calls use(object) if the object still exists, under the registry's lock: so an event is counted
  // for an object before remove() returns in the thread that destroys it.
  template <typename Object, typename Use>
  bool with(std::uint64_t cookie, Use&& use) {
    pthread_mutex_lock(&mutex_);
    void* object = find(cookie);
    if (object != nullptr) {
      use(*static_cast<Object*>(object));
    }
    pthread_mutex_unlock(&mutex_);
    return object != nullptr;
  }

  // Calls visit(object) for each living object of a kind, under the lock, until it returns true;
  // returns whether it did.
  template <typename Object, typename Visit>
  bool any_of(Kind kind, Visit&& visit) {
    pthread_mutex_lock(&mutex_);
    bool found = false;
    for (std::uint32_t i = 0; i < size_ && !found; ++i) {
      found = entries_[i].object != nullptr && entries_[i].kind == kind &&
              visit(*static_cast<Object*>(entries_[i].object));
    }
    pthread_mutex_unlock(&mutex_);
    return found;
  }

 private:
  struct Entry {
    void* object;  // nullptr: free
    std::uint32_t generation;
    std::uint32_t next_free;  // index + 1
    Kind kind;
  };
  [[nodiscard]] void* find(std::uint64_t cookie) const;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // guards the following
  Entry* entries_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t first_free_ = 0;  // index + 1
};

}  // namespace uroce::shim
