#pragma once

// Lets the parent of a fork wait until the child has its copies (fork_copies.h).
//
// Uses a pipe whose other end the child holds: EOF when the child closes it, when the child dies,
// and when the fork failed. If no descriptors are left for a pipe, uses a shared page, mapped
// before anything was converted: the child sets a flag there when it has begun, and holds a robust
// mutex while it copies; the kernel notifies the waiter if the holder dies. Only a child that never
// begins goes undetected, so the pipe is preferred.

#include <chrono>

namespace uroce::shim {

class ForkWait {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ForkWait() = default;
  ForkWait(const ForkWait&) = delete;
  ForkWait& operator=(const ForkWait&) = delete;

  // Call before anything is converted; may be repeated. False: no page could be mapped.
  bool open();

  // Call before a fork whose child copies memory. One thread at a time.
  void prepare();
  // Call in the child, around its work. begin() changes only the shared page, since this object may
  // be in memory that is still shared with the parent, which doesn't change it while it waits.
  void begin();
  void end();
  // Call last in a child: the page belongs to its parent.
  void forget();
  // Call in the parent; restarts after signals. True: the child has its copies, or doesn't exist
  // (any more). False: timeout. A cancellation point.
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
