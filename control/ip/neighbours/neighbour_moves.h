#pragma once

// Tracks the Ethernet addresses that paths use, and which peers have changed theirs since.
//
// Following a move means checking every path, and anybody on the link can announce moves at any
// rate. So the first move is followed at once; later ones are collected and followed together, with
// the newest address of each, seldom enough to take a tenth of the control thread's time at most.
// Sans-I/O; control thread only.

#include <cstddef>
#include <map>
#include <vector>

#include "base/time.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

struct Neighbour {
  LinkAddress address;
  EtherAddress mac;
};

class NeighbourMoves {
 public:
  static constexpr std::size_t kUsedMax = 65'536;    // beyond it every announcement is followed
  static constexpr std::size_t kWaitingMax = 4'096;  // further ones are lost until repeated
  static constexpr Duration kIntervalMin = 100 * kNanosecondsPerMillisecond;
  static constexpr Duration kRestFactor = 9;  // pause after an update, in its durations

  // A path to `address` was made with this Ethernet address.
  void path_made(const LinkAddress& address, const EtherAddress& mac);
  // `address` announced that it is at `mac`.
  void announced(const LinkAddress& address, const EtherAddress& mac);

  // The Ethernet addresses that existing paths use.
  [[nodiscard]] const std::map<LinkAddress, EtherAddress>& used() const { return used_; }

  // The moves to be followed now: empty before next_deadline(). Those that haven't been followed,
  // since memory ran out, are returned again.
  std::vector<Neighbour> due(Time now);
  // All moves so far have been followed, which began with due().
  void followed(Time began, Time now);
  // Memory ran out meanwhile, which has taken its time all the same.
  void not_followed(Time began, Time now) { rest(began, now); }
  // When due() will return something; kNever: no peer moved.
  [[nodiscard]] Time next_deadline() const { return waiting_.empty() ? kNever : not_before_; }

 private:
  void rest(Time began, Time now);

  struct Move {
    EtherAddress mac;
    bool in_use = false;  // some paths may have an address that was announced since used_ was
  };

  std::map<LinkAddress, EtherAddress> used_;
  std::map<LinkAddress, Move> waiting_;
  Time not_before_ = 0;
};

}  // namespace uroce::control
