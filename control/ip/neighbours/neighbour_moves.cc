#include "control/ip/neighbours/neighbour_moves.h"

#include <algorithm>

namespace uroce::control {

void NeighbourMoves::path_made(const LinkAddress& address, const EtherAddress& mac) {
  const auto waits = waiting_.find(address);
  if (waits != waiting_.end() && waits->second.mac == mac) {
    waits->second.in_use = true;
    return;  // older paths still have to be updated
  }
  if (used_.size() < kUsedMax || used_.contains(address)) {
    used_[address] = mac;
  }
}

void NeighbourMoves::announced(const LinkAddress& address, const EtherAddress& mac) {
  const auto waits = waiting_.find(address);
  if (waits != waiting_.end() && waits->second.in_use) {
    waits->second.mac = mac;  // some paths may have the address before this one
    return;
  }
  const auto used = used_.find(address);
  const bool in_use = used != used_.end();
  if (in_use ? used->second == mac : used_.size() < kUsedMax) {
    waiting_.erase(address);  // its paths use this address already, or it has none
  } else if (waits != waiting_.end() || waiting_.size() < kWaitingMax) {
    waiting_[address].mac = mac;
  }
}

std::vector<Neighbour> NeighbourMoves::due(Time now) {
  std::vector<Neighbour> moved;
  if (now < next_deadline()) {
    return moved;
  }
  not_before_ = now + kIntervalMin;
  for (auto& [address, move] : waiting_) {
    move.in_use = true;  // perhaps only a part of the paths is updated
    moved.push_back({address, move.mac});
  }
  return moved;
}

void NeighbourMoves::followed(Time began, Time now) {
  for (const auto& [address, move] : waiting_) {
    if (const auto used = used_.find(address); used != used_.end()) {
      used->second = move.mac;
    }
  }
  waiting_.clear();
  rest(began, now);
}

void NeighbourMoves::rest(Time began, Time now) {
  not_before_ = now + std::max(kIntervalMin, kRestFactor * (now - began));
}

}  // namespace uroce::control
