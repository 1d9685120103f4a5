#include "verbs_shim/memory/paging/paging.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <new>
#include <utility>

#include "verbs_shim/memory/hooks/hook_choice.h"
#include "verbs_shim/memory/hooks/watching.h"

namespace uroce::shim {
namespace {

// A daemon that doesn't answer for so long is broken; the program must continue.
constexpr timeval kDaemonTimeout = {.tv_sec = 60, .tv_usec = 0};

}  // namespace

DoneOrRefusal PagingSession::allowed() { return hooks_allowed(); }

OrRefusal<std::unique_ptr<PagingSession>> PagingSession::open(UniqueFd share, UniqueFd invalidate) {
  SharingState& state = sharing_state();
  if (DoneOrRefusal watching = watch_all_changes(state); !watching) {
    return watching.error();
  }
  std::unique_ptr<PagingSession> session(new (std::nothrow) PagingSession);
  if (session == nullptr) {
    return Refusal{ENOMEM, "no memory for the session"};
  }
  ::setsockopt(invalidate.get(), SOL_SOCKET, SO_RCVTIMEO, &kDaemonTimeout, sizeof(kDaemonTimeout));
  session->share_.keep(std::move(share));
  session->invalidate_.keep(std::move(invalidate));
  session->place_ = state.invalidations.add(session->invalidate_);
  if (session->place_ == Invalidations::kSessionsMax) {
    return Refusal{ENOSPC, "a process may have 64 sessions that page on demand"};
  }
  if (!session->helper_.start(state, session->share_)) {
    return Refusal{ENOMEM,
                   "can't start a thread: raise the limit of processes (ulimit -u, "
                   "pids.max of the cgroup)"};
  }
  return session;
}

PagingSession::~PagingSession() {
  helper_.stop();
  if (place_ != Invalidations::kSessionsMax) {
    sharing_state().invalidations.remove(place_);
  }
  share_.end();
  invalidate_.end();
}

void PagingSession::abandon_after_fork() {
  helper_.forget();
  place_ = Invalidations::kSessionsMax;
  share_.end();
  invalidate_.end();
}

}  // namespace uroce::shim
