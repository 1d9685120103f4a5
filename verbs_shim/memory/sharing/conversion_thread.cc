#include "verbs_shim/memory/sharing/conversion_thread.h"

#include <signal.h>

#include <atomic>
#include <new>

#include "base/futex.h"

namespace uroce::shim {
namespace {

enum Phase : std::uint32_t { kIdle, kOrdered, kDone };

}  // namespace

// The caller's request to the thread, and the thread's working memory.
struct ConversionThread::ThreadState {
  // kIdle -> kOrdered by the caller, -> kDone by the thread, -> kIdle by the caller. Each store is
  // a release that pairs with the acquire of the waiter.
  std::atomic<std::uint32_t> phase{kIdle};
  Conversion order;
  std::uint64_t converted = 0;
  PageConversion conversion;
};

void* ConversionThread::work(void* argument) {
  ThreadState& state = *static_cast<ThreadState*>(argument);
  for (;;) {
    for (std::uint32_t phase; (phase = state.phase.load(std::memory_order_acquire)) != kOrdered;) {
      futex_wait(state.phase, phase, FutexScope::kProcess);
    }
    state.converted = state.conversion.run(state.order);
    state.phase.store(kDone, std::memory_order_release);
    futex_wake(state.phase, FutexScope::kProcess, 1);
  }
  return nullptr;
}

bool ConversionThread::start() {
  if (thread_.prepared()) {
    return true;
  }
  if (!thread_.prepare(sizeof(ThreadState))) {
    return false;
  }
  state_ = new (thread_.state()) ThreadState;
  return thread_.start("uroce-memory", work, state_);
}

void ConversionThread::forget() {
  if (thread_.prepared()) {
    state_->conversion.end();
  }
  thread_.forget();
}

std::uint64_t ConversionThread::run(const Conversion& conversion) {
  if (!start()) {
    return 0;
  }
  state_->order = conversion;
  state_->order.unwatched = one_thread();
  // A signal handler could write to the range if writers aren't blocked.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  state_->phase.store(kOrdered, std::memory_order_release);
  futex_wake(state_->phase, FutexScope::kProcess, 1);
  while (state_->phase.load(std::memory_order_acquire) != kDone) {
    futex_wait(state_->phase, kOrdered, FutexScope::kProcess);
  }
  const std::uint64_t converted = state_->converted;
  state_->phase.store(kIdle, std::memory_order_release);
  futex_wake(state_->phase, FutexScope::kProcess, 1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return converted;
}

}  // namespace uroce::shim
