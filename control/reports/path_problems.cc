#include "control/reports/path_problems.h"

namespace uroce::control {

bool PathProblems::note(const PathError& error, Time now) {
  const auto known = by_peer_.find(error.destination);
  if (known == by_peer_.end()) {
    forget_old(now);
    if (by_peer_.size() >= kPeersMax) {
      return false;
    }
    by_peer_[error.destination] = {error.kind, error.mtu, now, now, to_string(error)};
    return true;
  }
  Problem& problem = known->second;
  problem.heard = now;
  if (problem.kind == error.kind && problem.mtu == error.mtu && now - problem.told < kSilence) {
    return false;
  }
  problem = {error.kind, error.mtu, now, now, to_string(error)};
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
