#pragma once

// A pool of helper threads for operations on descriptors that programs passed: receiving, examining
// or closing such a descriptor can block for as long as its creator likes (a lingering socket, a
// file of the program's own FUSE file system).
//
// At most one helper works on a user's jobs; when they are done it is free for others. A helper
// that hangs is abandoned: further jobs of its user are refused with a sentence, and other users'
// jobs get other helpers. Root in a container can act as many users, so the users of one user
// namespace together get at most half of the helpers that others leave, as in shares/. An idle
// helper exits after a while, but the last one stays, in case no thread can be created. Any thread
// may call.

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "shares/account.h"
#include "shares/user.h"

namespace uroce::control {

class HelperPool {
 public:
  // How long one job may take, or a user's jobs may wait for a helper. Legitimate jobs take
  // microseconds.
  static constexpr Duration kTimeout = kNanosecondsPerSecond;
  static constexpr std::size_t kHelpersMax = 64;  // threads, one of them spare; further users wait
  static constexpr std::size_t kJobsMax = 256;    // queued jobs of one user
  static constexpr Duration kIdleMax = kNanosecondsPerSecond;

  explicit HelperPool(Duration timeout = kTimeout);
  // Doesn't wait for helpers; one that hangs ends with the process.
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  // Starts the helper that stays, in advance.
  Status start_spare();
  // Queues a job behind the user's earlier ones. It must own everything that it uses. EBUSY: the
  // user's helper hangs, or too many jobs are queued.
  Status run(const User& user, std::function<void()> job);
  // Closes the descriptor in a helper, even if the user's helper hangs at the moment; never on this
  // thread. `charge`: for the descriptor; given back once it is closed.
  void close(const User& user, UniqueFd descriptor, Charge charge = {});
  // Readable when a job has been done since the last clear_event().
  [[nodiscard]] int descriptor() const;
  void clear_event();
  // Whether the user's helper makes progress. EBUSY: it hangs.
  [[nodiscard]] Status check(const User& user) const;
  // The time at which check() may change for some user without other events; call check() again
  // then. kNever: no such time.
  [[nodiscard]] Time next_check() const;

  [[nodiscard]] std::size_t threads() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads
};

}  // namespace uroce::control
