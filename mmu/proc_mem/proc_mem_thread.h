#pragma once

// The helper thread that accesses a program's memory through /proc/PID/mem.
//
// Why a thread: /proc/PID/mem, like process_vm_readv, goes through the program's page tables as the
// program itself would. A page can be backed by a FUSE file system or a userfaultfd whose server
// doesn't answer; the lock of the address space can be held for as long as another call waits for
// such a file system. No flag makes these calls non-blocking, and it can't be known beforehand:
// between a check (mincore, /proc/PID/pagemap) and the copy the program can change the mapping. So
// the call may block for ever, and is made by a thread that no other program depends on. There is
// one thread per program: a stuck one delays only the copies of its own program.

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "mmu/proc_mem/proc_mem_copy.h"
#include "shares/user.h"

namespace uroce {

class ProcMemThread {
 public:
  static constexpr std::uint32_t kWaitingMax = 32;        // copies of a program
  static constexpr std::uint32_t kUserCopiesMax = 256;    // of all programs of a user
  static constexpr std::uint32_t kUserThreadsMax = 1024;  // those that are stuck for ever included

  // `memory`: as open_proc_mem() gives it. ENOMEM with a sentence.
  static Result<std::shared_ptr<ProcMemThread>> start(std::shared_ptr<const UniqueFd> memory,
                                                      const User& user);
  // Doesn't wait for the thread, which ends by itself as soon as its current copy returns.
  ~ProcMemThread();
  ProcMemThread(const ProcMemThread&) = delete;
  ProcMemThread& operator=(const ProcMemThread&) = delete;

  // Any worker. False if there is no room; otherwise the copy belongs to the helper until it is
  // done.
  [[nodiscard]] bool put(ProcMemCopy* copy);
  // The worker gives up waiting. True if the copy was done already; otherwise the worker no longer
  // owns it.
  [[nodiscard]] static bool abandon(ProcMemCopy* copy);

  // Who waits for copies: a list of one, made beforehand, so that waiting allocates nothing.
  struct Waiter {
    std::function<void()> then;
    std::uint64_t put = 0;  // the copies that were submitted until then
  };
  using Waiters = std::list<Waiter>;
  static Waiters make_waiter(std::function<void()> then) {
    Waiters one;
    one.push_back({.then = std::move(then)});
    return one;
  }

  // Copies are done in FIFO order. Waits until all copies submitted so far are done: true if they
  // are already; otherwise the helper thread calls the waiter's `then` when they are.
  [[nodiscard]] bool notify_when_idle(Waiters&& waiter);
  [[nodiscard]] bool when_idle(std::function<void()> then) {
    return notify_when_idle(make_waiter(std::move(then)));
  }

 private:
  class State;
  struct UserCounts;
  static std::shared_ptr<UserCounts> counts_of(const User& user);
  explicit ProcMemThread(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // also the thread's
};

}  // namespace uroce
