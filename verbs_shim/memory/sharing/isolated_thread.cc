#include "verbs_shim/memory/sharing/isolated_thread.h"

#include <signal.h>

#include <atomic>
#include <new>
#include <type_traits>

#include "base/page.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

// The program's static thread-local memory is part of it: ThreadSanitizer alone has 900 KiB.
constexpr std::size_t kStackBytes = 2ULL << 20U;
constexpr std::size_t kGuardBytes = kPage;

std::atomic<int> threads{0};
std::atomic<unsigned> started_ever{0};

}  // namespace

// What a thread runs. At the top of its room.
struct IsolatedThread::Run {
  void* (*work)(void*) = nullptr;
  void* argument = nullptr;
};

int IsolatedThread::count() { return threads.load(); }

unsigned IsolatedThread::starts() { return started_ever.load(); }

void IsolatedThread::forget_all() { threads.store(0); }

// It isn't counted any more before it ends, whether or not somebody joins it.
void* IsolatedThread::run(void* argument) {
  const Run& wanted = *static_cast<const Run*>(argument);
  void* const result = wanted.work(wanted.argument);
  threads.fetch_sub(1);
  return result;
}

bool IsolatedThread::prepare(std::size_t state_bytes) {
  static_assert(std::is_trivially_destructible_v<Run>);
  const std::size_t rounded = page_ceil(sizeof(Run) + state_bytes);
  bytes_ = kGuardBytes + kStackBytes + rounded;
  void* const room = kernel::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return false;
  }
  kernel::mprotect(room, kGuardBytes, PROT_NONE);
  // Different flags keep the kernel from merging it with the program's memory: otherwise the memory
  // above would look like part of a stack, which is never shared. (Without huge page support, it
  // still does.)
  kernel::madvise(room, bytes_, MADV_NOHUGEPAGE);
  room_ = room;
  state_ = static_cast<std::byte*>(room) + kGuardBytes + kStackBytes;
  run_ = new (static_cast<std::byte*>(room) + bytes_ - sizeof(Run)) Run;
  return true;
}

bool IsolatedThread::start(const char* name, void* (*work)(void*), void* argument) {
  *run_ = {work, argument};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, static_cast<std::byte*>(room_) + kGuardBytes, kStackBytes);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&thread_, &attributes, run, run_) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (!started) {
    kernel::munmap(room_, bytes_);
    room_ = nullptr;
    return false;
  }
  pthread_setname_np(thread_, name);
  // Only now, so that never more are counted than there are.
  started_ever.fetch_add(1);
  threads.fetch_add(1);
  return true;
}

void IsolatedThread::join() {
  pthread_join(thread_, nullptr);
  kernel::munmap(room_, bytes_);
  room_ = nullptr;
}

void IsolatedThread::leave() {
  pthread_detach(thread_);
  room_ = nullptr;
}

}  // namespace uroce::shim
