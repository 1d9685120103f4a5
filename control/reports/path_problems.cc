#include "control/reports/path_problems.h"

namespace uroce::control {

bool PathProblems::record(const PathError& error, Time now) {
  if (!by_peer_.contains(error.destination)) {
    forget_old(now);
    if (by_peer_.size() >= kPeersMax) {
      return false;
    }
  }
  Problem& problem = by_peer_[error.destination];
  problem.last_seen = now;
  problem.text = to_string(error);
  Time& silent_until = problem.silent_until[error.kind];
  if (now < silent_until || !may_log(now)) {
    return false;
  }
  silent_until = now + kLineIntervalMin;
  return true;
}

// A problem that isn't logged because of the limit is logged later, if it occurs again.
bool PathProblems::may_log(Time now) {
  if (now >= counted_until_) {
    counted_until_ = now + kLineIntervalMin;
    lines_logged_ = 0;
  }
  if (lines_logged_ == kLinesMax) {
    return false;
  }
  ++lines_logged_;
  return true;
}

std::string PathProblems::last(const Gid& peer, Time now) const {
  const auto known = by_peer_.find(peer);
  return known != by_peer_.end() && now - known->second.last_seen < kRetention ? known->second.text
                                                                               : "";
}

void PathProblems::forget_old(Time now) {
  if (by_peer_.size() >= kPeersMax) {
    std::erase_if(by_peer_,
                  [now](const auto& entry) { return now - entry.second.last_seen >= kRetention; });
  }
}

}  // namespace uroce::control
