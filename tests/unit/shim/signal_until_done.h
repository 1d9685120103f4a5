#pragma once

// Interrupts a thread's system calls.

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace uroce::test {

// Sends SIGUSR1 to the thread, again and again, until it is done, but no longer than `patience`.
// Returns whether it is done.
inline bool signal_until_done(std::thread& thread, const std::atomic<bool>& done,
                              std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done.load() && std::chrono::steady_clock::now() < deadline) {
    pthread_kill(thread.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  return done.load();
}

}  // namespace uroce::test
