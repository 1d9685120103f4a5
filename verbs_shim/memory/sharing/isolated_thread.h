#pragma once

// A thread inside somebody else's program that depends on nothing of the program's: its stack and
// its state lie in a mapping of their own, and signals aren't for it.

#include <pthread.h>

#include <cstddef>

namespace uroce::shim {

// The mapping: a guard, the stack, and zeroed room for the thread's state.
class IsolatedThread {
 public:
  IsolatedThread() = default;
  IsolatedThread(const IsolatedThread&) = delete;
  IsolatedThread& operator=(const IsolatedThread&) = delete;

  // Maps the room. False where the kernel refuses.
  bool prepare(std::size_t state_bytes);
  [[nodiscard]] void* state() const { return state_; }
  // Starts the thread. REQUIRES: prepare(). False: the system has no thread to give.
  bool start(const char* name, void* (*work)(void*), void* argument);
  // Waits until it has returned, and unmaps everything.
  void join();
  // Instead of join(), where nothing here ends the thread: it keeps its mapping.
  void leave();
  // In a fork's child: the thread doesn't exist. Keeps the room, in which much may still be named.
  void forget() { room_ = nullptr; }

  [[nodiscard]] bool prepared() const { return room_ != nullptr; }
  // How many there are in the process, save those that were left.
  static unsigned count();

 private:
  void* room_ = nullptr;
  std::size_t bytes_ = 0;
  void* state_ = nullptr;
  pthread_t thread_ = {};
};

}  // namespace uroce::shim
