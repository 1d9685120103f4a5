#pragma once

// Threads that touch what programs pass, so that nobody else has to: to receive, look at or close a
// descriptor takes as long as whoever made it likes (a socket that lingers, a file of a program's
// own file system).
//
// At most one is at a user's jobs; when they are done it is anybody's. One that doesn't come
// back is left behind: jobs of its user are refused from then on, with a sentence, and those of
// other users have helpers of their own. Whoever is root in a container can be as many users of it
// as he likes, so those of one user namespace have at most half of the helpers that others leave,
// as in shares/. A helper with nothing to do goes after a while, but the last one stays, for when
// the machine has no thread left. Any thread may ask.

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "shares/user.h"

namespace uroce::control {

class HelperPool {
 public:
  // How long one job may keep a helper, or a user's jobs may wait for one. What is honest
  // takes microseconds.
  static constexpr Duration kTimeout = kNanosecondsPerSecond;
  static constexpr std::size_t kHelpersMax = 64;  // threads; further users wait. One is spare
  static constexpr std::size_t kJobsMax = 256;    // of one user that wait
  static constexpr Duration kIdleMax = kNanosecondsPerSecond;

  explicit HelperPool(Duration timeout = kTimeout);
  // Waits for nobody: a helper that hangs ends with the process.
  ~HelperPool();
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  // The one that stays, before anybody needs it.
  Status start_spare();
  // Has it done soon, after what was asked for this user before. It may outlive everything that
  // isn't its own. EBUSY: the user's helper hangs, or has as much to do as it may.
  Status run(const User& user, std::function<void()> job);
  // Closes it, now or when the user's helper comes back; never on this thread.
  void close(const User& user, UniqueFd descriptor);
  // Readable when a job has been done since the last quieten().
  [[nodiscard]] int descriptor() const;
  void quieten();
  // Whether the user's helper does what it is asked. EBUSY: it hangs.
  [[nodiscard]] Status check(const User& user) const;
  // When check() of some user may change its mind if nothing is done until then; kNever: never. To
  // be asked again then.
  [[nodiscard]] Time next_look() const;

  [[nodiscard]] std::size_t threads() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // the threads' too
};

}  // namespace uroce::control
