#include "verbs_shim/memory/sharing/fork_wait.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>

#include "verbs_shim/memory/sharing/kernel_calls.h"

namespace uroce::shim {
namespace {

using std::chrono::duration_cast;
using std::chrono::nanoseconds;
using std::chrono::seconds;

// A child that hasn't begun after this time is considered not to exist: the fork has failed, or the
// child was killed at once. Not used with a pipe, which reports both.
constexpr seconds kBeginPatience{10};

timespec timespec_of(ForkWait::Time time) {  // steady_clock is CLOCK_MONOTONIC
  const auto since_start = time.time_since_epoch();
  const auto whole = duration_cast<seconds>(since_start);
  return {.tv_sec = whole.count(), .tv_nsec = nanoseconds(since_start - whole).count()};
}

}  // namespace

struct ForkWait::Page {
  sem_t begun;
  pthread_mutex_t copying;
};

bool ForkWait::open() {
  if (page_ != nullptr) {
    return true;
  }
  void* const page = kernel::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return false;
  }
  page_ = new (page) Page;
  return true;
}

void ForkWait::prepare() {
  if (::pipe2(pipe_, O_CLOEXEC) == 0) {
    return;
  }
  pipe_[0] = pipe_[1] = -1;
  if (page_ != nullptr) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page_->copying, &attributes);
    pthread_mutexattr_destroy(&attributes);
    ::sem_init(&page_->begun, 1, 0);
  }
}

void ForkWait::begin() {
  if (pipe_[0] < 0 && page_ != nullptr) {
    pthread_mutex_lock(&page_->copying);
    ::sem_post(&page_->begun);
  }
}

void ForkWait::end() {
  if (pipe_[0] < 0 && page_ != nullptr) {
    pthread_mutex_unlock(&page_->copying);
  }
  close_pipe();
}

bool ForkWait::wait(Time deadline) {
  const bool done = pipe_[0] >= 0 ? wait_at_pipe(deadline) : wait_at_page(deadline);
  close_pipe();
  return done;
}

bool ForkWait::wait_at_pipe(Time deadline) {
  ::close(pipe_[1]);
  pollfd ended = {.fd = pipe_[0], .events = POLLIN, .revents = 0};
  for (;;) {
    const nanoseconds left =
        std::max(nanoseconds{0}, nanoseconds(deadline - std::chrono::steady_clock::now()));
    const timespec timeout = timespec_of(Time(left));
    const int result = ::ppoll(&ended, 1, &timeout, nullptr);
    if (result >= 0 || errno != EINTR) {
      pipe_[1] = -1;
      return result > 0;
    }
  }
}

bool ForkWait::wait_at_page(Time deadline) {
  if (page_ == nullptr) {
    return false;
  }
  const timespec begun =
      timespec_of(std::min(deadline, std::chrono::steady_clock::now() + kBeginPatience));
  int error = 0;
  do {
    error = ::sem_clockwait(&page_->begun, CLOCK_MONOTONIC, &begun) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) {
    const timespec end = timespec_of(deadline);
    error =
        pthread_mutex_clocklock(&page_->copying, CLOCK_MONOTONIC, &end);  // freed if the child dies
  }
  if (error == 0 || error == EOWNERDEAD) {
    pthread_mutex_unlock(&page_->copying);
    return true;
  }
  // A late child may still use the page, so the next fork gets another.
  forget();
  (void)open();
  return false;
}

void ForkWait::close_pipe() {
  for (int& end : pipe_) {
    if (end >= 0) {
      ::close(end);
      end = -1;
    }
  }
}

void ForkWait::forget() {
  if (page_ != nullptr) {
    kernel::munmap(page_, sizeof(Page));
    page_ = nullptr;
  }
}

}  // namespace uroce::shim
