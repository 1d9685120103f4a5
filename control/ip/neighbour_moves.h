#pragma once

// Where the peers of paths are on the link, and which of them have moved since the paths were made.
//
// Following a move means a look at every path, and anybody on the link can say that somebody moved,
// as often as it likes. So the first move is followed at once, and what is heard after it waits:
// all of it is followed together, with the newest address of each, so seldom that it takes a tenth
// of the control thread's time at most. Sans-I/O; control thread only.

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
  static constexpr std::size_t kGivenMax = 65'536;   // beyond it whatever a peer says is followed
  static constexpr std::size_t kWaitingMax = 4'096;  // beyond it a peer has to say it again
  static constexpr Duration kIntervalMin = 100 * kNanosecondsPerMillisecond;
  static constexpr Duration kRestFactor = 9;  // times as long as following took

  // A path to `address` was made with this Ethernet address.
  void gave(const LinkAddress& address, const EtherAddress& mac);
  // `address` says that it is at `mac`.
  void heard(const LinkAddress& address, const EtherAddress& mac);

  // Where the peers of paths are, by the paths.
  [[nodiscard]] const std::map<LinkAddress, EtherAddress>& given() const { return given_; }

  // What is to be followed now: empty before next_deadline().
  std::vector<Neighbour> take(Time now);
  // Following what take() returned ended now.
  void followed(Time began, Time now);
  // When take() has something; kNever: nobody moved.
  [[nodiscard]] Time next_deadline() const { return waiting_.empty() ? kNever : not_before_; }

 private:
  std::map<LinkAddress, EtherAddress> given_;
  std::map<LinkAddress, EtherAddress> waiting_;
  Time not_before_ = 0;
};

}  // namespace uroce::control
