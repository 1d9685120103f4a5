#pragma once

// A thread inside a foreign program that depends on nothing of the program's: its stack and state
// lie in a mapping of their own, and it blocks all signals.

#include <pthread.h>

#include <cstddef>

namespace uroce::shim {

// The mapping: a guard page, the stack, and zeroed room for the thread's state.
class IsolatedThread {
 public:
  IsolatedThread() = default;
  IsolatedThread(const IsolatedThread&) = delete;
  IsolatedThread& operator=(const IsolatedThread&) = delete;

  // Maps the room. False where the kernel refuses.
  bool prepare(std::size_t state_bytes);
  [[nodiscard]] void* state() const { return state_; }
  // Starts the thread. REQUIRES: prepare(). False: pthread_create() failed.
  bool start(const char* name, void* (*work)(void*), void* argument);
  // Waits until it has returned, and unmaps everything.
  void join();
  // Instead of join(), if the thread can't be made to end: it keeps its mapping.
  void leave();
  // In a fork's child, where the thread doesn't exist. Keeps the mapping, to which pointers may
  // still refer.
  void forget() { room_ = nullptr; }

  [[nodiscard]] bool prepared() const { return room_ != nullptr; }
  // The number of these threads in the process, except those left by leave().
  static unsigned count();

 private:
  void* room_ = nullptr;
  std::size_t bytes_ = 0;
  void* state_ = nullptr;
  pthread_t thread_ = {};
};

}  // namespace uroce::shim
