#include "control/ip/neighbour_moves.h"

#include <algorithm>

namespace uroce::control {

void NeighbourMoves::gave(const LinkAddress& address, const EtherAddress& mac) {
  const auto waits = waiting_.find(address);
  if (waits != waiting_.end() && waits->second == mac) {
    return;  // older paths still have to be updated
  }
  if (given_.size() < kGivenMax || given_.contains(address)) {
    given_[address] = mac;
  }
}

void NeighbourMoves::heard(const LinkAddress& address, const EtherAddress& mac) {
  const auto given = given_.find(address);
  const bool in_use = given != given_.end();
  if (in_use ? given->second == mac : given_.size() < kGivenMax) {
    waiting_.erase(address);  // its paths use this address already, or it has none
  } else if (waiting_.size() < kWaitingMax || waiting_.contains(address)) {
    waiting_[address] = mac;
  }
}

std::vector<Neighbour> NeighbourMoves::take(Time now) {
  std::vector<Neighbour> moved;
  if (now < next_deadline()) {
    return moved;
  }
  for (const auto& [address, mac] : waiting_) {
    moved.push_back({address, mac});
    if (const auto given = given_.find(address); given != given_.end()) {
      given->second = mac;
    }
  }
  waiting_.clear();
  return moved;
}

void NeighbourMoves::followed(Time began, Time now) {
  not_before_ = now + std::max(kIntervalMin, kRestFactor * (now - began));
}

}  // namespace uroce::control
