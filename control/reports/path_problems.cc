#include "control/reports/path_problems.h"

namespace uroce::control {

bool PathProblems::note(const PathError& error, Time now) {
  if (!by_peer_.contains(error.destination)) {
    forget_old(now);
    if (by_peer_.size() >= kPeersMax) {
      return false;
    }
  }
  Problem& problem = by_peer_[error.destination];
  problem.heard = now;
  problem.text = to_string(error);
  Time& silent_until = problem.silent_until[static_cast<std::size_t>(error.kind)];
  if (now < silent_until || !may_tell(now)) {
    return false;
  }
  silent_until = now + kSilence;
  return true;
}

// A problem that isn't logged because of the limit is logged later, if it occurs again.
bool PathProblems::may_tell(Time now) {
  if (now >= counted_until_) {
    counted_until_ = now + kSilence;
    tellings_ = 0;
  }
  if (tellings_ == kTellingsMax) {
    return false;
  }
  ++tellings_;
  return true;
}

std::string PathProblems::last(const Gid& peer, Time now) const {
  const auto known = by_peer_.find(peer);
  return known != by_peer_.end() && now - known->second.heard < kMemory ? known->second.text : "";
}

void PathProblems::forget_old(Time now) {
  if (by_peer_.size() >= kPeersMax) {
    std::erase_if(by_peer_,
                  [now](const auto& entry) { return now - entry.second.heard >= kMemory; });
  }
}

}  // namespace uroce::control
