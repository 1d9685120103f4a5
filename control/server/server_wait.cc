// The control thread between requests: it polls for the next one for a moment, and then sleeps.

#include <sched.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/relax.h"
#include "control/server/server.h"

namespace uroce::control {
namespace {

// How long the next request is expected after each answer, since programs often send one after
// another: waking up takes longer than most answers do.
constexpr Duration kLinger = 30 * kNanosecondsPerMicrosecond;
// Checking programs' pages costs next to nothing. Checking everything else takes system calls,
// which are made at this interval, even if pages always have a request.
constexpr Duration kBetweenPolls = 2 * kNanosecondsPerMicrosecond;
// The number of the latter after which the processor is yielded.
constexpr std::uint32_t kPollsBeforeYield = 2;

}  // namespace

int Server::wait(std::span<epoll_event> events) {
  const auto most = static_cast<int>(events.size());
  for (Time now = card_.now(); now < linger_until_; now = card_.now()) {
    const bool polls = now >= next_poll_;
    if (polls) {
      next_poll_ = now + kBetweenPolls;
      if (const int count = ::epoll_wait(poll_.get(), events.data(), most, 0); count != 0) {
        return count;
      }
    }
    if (page_poller_.any_request()) {
      return 0;
    }
    if (polls && ++polls_ % kPollsBeforeYield == 0) {
      ::sched_yield();
    } else {
      relax_processor();
    }
  }
  const int timeout = page_poller_.stop_all() ? milliseconds_to_deadline() : 0;
  heartbeat_.rest();
  const int count = ::epoll_wait(poll_.get(), events.data(), most, timeout);
  heartbeat_.beat();
  return count;
}

void Server::serve_timed(Connections::iterator at) {
  const User user = at->second.conversation->session().account()->user();  // may be destroyed
  const Time begun = card_.now();
  heartbeat_.beat();
  serve(at);
  throttled_users_.note(user, begun, card_.now());
  linger_until_ = card_.now() + kLinger;
}

int Server::milliseconds_to_deadline() const {
  Time deadline = std::min({links_.next_check(), next_helpers_check_, throttled_users_.next_time(),
                            services_.connections.next_deadline()});
  for (const Device& device : card_.devices()) {
    deadline = std::min(deadline, device.next_deadline());
  }
  if (services_.addresses != nullptr) {
    deadline = std::min(deadline, services_.addresses->next_check());
  }
  if (services_.sampler != nullptr) {
    deadline = std::min(deadline, services_.sampler->next_deadline());
  }
  if (deadline == kNever) {
    return -1;
  }
  const Time now = card_.now();
  return deadline <= now ? 0 : static_cast<int>((deadline - now) / kNanosecondsPerMillisecond) + 1;
}

}  // namespace uroce::control
