#pragma once

// A program whose memory has to be reached the slow way, with the thread that goes there.
//
// Why a thread: /proc/PID/mem, and process_vm_readv no less, goes through the program's page
// tables as the program itself would. A page can be backed by a FUSE file system or a userfaultfd
// that its own user answers, or not; the lock of its address space can be held for as long as a
// call that waits for such a file system takes. No flag makes these calls give up instead, and
// nothing tells beforehand: between a look (mincore, /proc/PID/pagemap) and the copy the program
// changes what lies there. So whoever makes the call may wait for ever, and that is nobody whom
// other programs need. One thread a program: one that is stuck keeps nobody's copies waiting but
// its own program's.

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstdint>
#include <functional>
#include <memory>

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
  // The thread ends by itself, as soon as it comes back.
  ~ProcMemThread();
  ProcMemThread(const ProcMemThread&) = delete;
  ProcMemThread& operator=(const ProcMemThread&) = delete;

  // Any worker. False if there is no room; else the copy is the helper's until it is done.
  [[nodiscard]] bool put(ProcMemCopy* copy);
  // The worker waits no longer. True if the copy was done already; else it isn't the worker's any
  // more.
  [[nodiscard]] static bool give_up(ProcMemCopy* copy);

  // Copies are carried out in the order in which they came. For whoever must know that none is
  // left that came before: true if it is so now; else `then` is called when it is, by the helper.
  [[nodiscard]] bool when_idle(std::function<void()> then);

 private:
  class State;
  struct UserCounts;
  static std::shared_ptr<UserCounts> counts_of(const User& user);
  explicit ProcMemThread(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace uroce
