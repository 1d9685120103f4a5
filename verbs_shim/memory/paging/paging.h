#pragma once

// On-demand paging for the rest of the shim: one object for each session with an on-demand region.
// Described in docs/odp.md.

#include <memory>

#include "base/refusal.h"
#include "base/unique_fd.h"
#include "base/verified_descriptor.h"
#include "verbs_shim/memory/paging/paging_helper.h"

namespace uroce::shim {

class PagingSession {
 public:
  // Whether the user permits it (UROCE_HOOKS). Error: EOPNOTSUPP.
  static DoneOrRefusal allowed();
  // Takes the program's ends of the two channels. From the first session in the process on, changes
  // to mappings are announced. Errors: EOPNOTSUPP if they can't be intercepted, ENOMEM, ENOSPC for
  // too many sessions.
  static OrRefusal<std::unique_ptr<PagingSession>> open(UniqueFd share, UniqueFd invalidate);
  ~PagingSession();
  PagingSession(const PagingSession&) = delete;
  PagingSession& operator=(const PagingSession&) = delete;

  // For a fork's child, which has no helper thread and must not use the channels.
  void abandon_after_fork();

 private:
  PagingSession() = default;

  VerifiedDescriptor share_;
  VerifiedDescriptor invalidate_;
  PagingHelper helper_;
  unsigned place_ = Invalidations::kSessionsMax;  // index among the notified sessions
};

}  // namespace uroce::shim
