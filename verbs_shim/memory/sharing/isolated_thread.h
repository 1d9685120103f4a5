#pragma once

// A thread inside a program that doesn't depend on the program's memory: its stack and state are in
// a separate mapping, and it blocks all signals.

#include <pthread.h>

#include <cstddef>

namespace uroce::shim {

// The mapping: a guard page, the stack, and zeroed space for the thread's state and what it runs.
class IsolatedThread {
 public:
  IsolatedThread() = default;
  IsolatedThread(const IsolatedThread&) = delete;
  IsolatedThread& operator=(const IsolatedThread&) = delete;

  // Creates the mapping. False if the kernel refuses.
  bool prepare(std::size_t state_bytes);
  [[nodiscard]] void* state() const { return state_; }
  // Starts the thread. REQUIRES: prepare(). False: pthread_create() failed.
  bool start(const char* name, void* (*work)(void*), void* argument);
  // Waits until the thread has returned, and unmaps everything.
  void join();
  // Call instead of join() if the thread can't be ended: it keeps its mapping.
  void leave();
  // For a fork's child, where the thread doesn't exist. Keeps the mapping, to which pointers may
  // still refer.
  void forget() { room_ = nullptr; }

  [[nodiscard]] bool prepared() const { return room_ != nullptr; }
  // At most the number of these threads that the process has now.
  static int count();
  // How many were ever started. While this stays the same, none that count() counts is new.
  static unsigned starts();
  // For a fork's child: it has none.
  static void forget_all();

 private:
  struct Run;
  static void* run(void* argument);

  void* room_ = nullptr;
  std::size_t bytes_ = 0;
  void* state_ = nullptr;
  Run* run_ = nullptr;
  pthread_t thread_ = {};
};

}  // namespace uroce::shim
