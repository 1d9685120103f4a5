#pragma once

// How a fork's parent waits until the child has its copies (fork_copies.h).
//
// By a pipe that the child holds one end of: it ends when the child closes it, when the child dies,
// and when the fork failed and there is no child. Where no descriptors are left for a pipe, by a
// page that both share, mapped before anything was converted: the child says there that it has
// begun, and holds a robust mutex while it copies; the kernel tells whoever waits for such a mutex
// that the holder has died. Only of a child that never begins nobody tells, so the pipe comes
// first.

#include <chrono>

namespace uroce::shim {

class ForkWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ForkWait() = default;
  ForkWait(const ForkWait&) = delete;
  ForkWait& operator=(const ForkWait&) = delete;

  // Before anything is converted, and again at will. False: the system has no page to give.
  bool open();

  // Before a fork whose child copies something. One thread at a time.
  void prepare();
  // In the child, around its work. begin() changes nothing but the shared page, since this object
  // may lie in memory that is still the parent's; nor does the parent change it while it waits.
  void begin();
  void end();
  // In a child, at last: the page is its parent's.
  void forget();
  // In the parent, whatever signals come. True: the child has its copies, or there is none (any
  // more). False: it is too late for it. A cancellation point.
  bool wait(Time deadline);

 private:
  struct Page;
  bool wait_at_pipe(Time deadline);
  bool wait_at_page(Time deadline);
  void close_pipe();

  int pipe_[2] = {-1, -1};
  Page* page_ = nullptr;
};

}  // namespace uroce::shim
