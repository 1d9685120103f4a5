#pragma once

// guarded(): work on memory that can vanish. A SIGBUS on this thread while the work runs jumps back
// to where it began. sigsetjmp without the signal mask costs 5 ns; a fault that happens, 2-4 us.

#include <setjmp.h>

#include <atomic>

namespace uroce {

namespace detail {

// The innermost work of this thread, or nullptr. Written by the thread, read by its own signal
// handler: the fences below keep the compiler from moving accesses across.
extern constinit thread_local sigjmp_buf* guard_entry;

}  // namespace detail

// Calls work() with SIGBUS guarded: false if it faulted. For plain loads and stores to a span's
// `host` in code that must run in one pass (the fused copy and ICRC). work must hold nothing that
// needs a destructor.
template <typename Work>
[[nodiscard]] bool guarded(Work&& work) {
  sigjmp_buf entry;
  sigjmp_buf* const outer = detail::guard_entry;
  if (sigsetjmp(entry, 0) != 0) {
    // `outer` wasn't changed since sigsetjmp, so it is still what it was (ISO C 7.13.2.1).
    detail::guard_entry = outer;
    return false;
  }
  detail::guard_entry = &entry;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  work();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  detail::guard_entry = outer;
  return true;
}

}  // namespace uroce
