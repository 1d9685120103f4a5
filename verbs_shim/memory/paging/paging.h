#pragma once

// Paging on demand, as the rest of the shim uses it: one object for each session that has a region
// on demand. docs/odp.md tells the whole story.

#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/verified_descriptor.h"
#include "verbs_shim/memory/paging/paging_helper.h"

namespace uroce::shim {

class PagingSession {
 public:
  // Whether the user allows it (UROCE_HOOKS). Error: EOPNOTSUPP.
  static Status allowed();
  // The program's ends of the daemon's two channels. From the first session in the process on, the
  // program's changes to its mappings are announced. Errors: EOPNOTSUPP where they can't be
  // watched, ENOMEM, ENOSPC for too many sessions.
  static Result<std::unique_ptr<PagingSession>> open(UniqueFd share, UniqueFd invalidate);
  ~PagingSession();
  PagingSession(const PagingSession&) = delete;
  PagingSession& operator=(const PagingSession&) = delete;

  // In a fork's child, which has neither the thread nor a part in the conversation.
  void abandon_after_fork();

 private:
  PagingSession() = default;

  VerifiedDescriptor share_;
  VerifiedDescriptor invalidate_;
  PagingHelper helper_;
  unsigned place_ = Invalidations::kSessionsMax;  // among the sessions that are told
};

}  // namespace uroce::shim
