#pragma once

// Lets a fork's parent wait until the child has its copies (fork_copies.h).
//
// Through a pipe whose other end the child holds: it ends when the child closes it, when the child
// dies, and when the fork failed. If no descriptors are left for a pipe, through a page that both
// share, mapped before anything was converted: the child sets a flag there when it has begun, and
// holds a robust mutex while it copies; the kernel notifies the waiter if the holder dies. Only a
// child that never begins goes unnoticed, so the pipe is preferred.

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
