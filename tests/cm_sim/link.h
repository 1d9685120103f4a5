#pragma once

// The network between two hosts: MADs are lost, repeated, delayed and reordered as a seed
// determines. After calm(), everything arrives after a short delay.

#include <cstdint>
#include <map>

#include "control/cm/manager.h"
#include "tests/sim/random.h"

namespace uroce::sim {

struct LinkCounts {
  std::uint64_t sent = 0, lost = 0, repeated = 0, late = 0;
};

class Link {
 public:
  explicit Link(Random& random);

  void send(int to, const control::cm::Outgoing& outgoing, Time now);
  [[nodiscard]] Time next_arrival() const {
    return on_the_way_.empty() ? kNever : on_the_way_.begin()->first;
  }
  struct Arrival {
    int to = 0;
    control::cm::Outgoing outgoing;
  };
  // REQUIRES: there is a message in flight
  Arrival take();
  // Whether one packet gets through.
  bool lets_through(Time now) { return now >= cut_until_ && !random_.chance(loss_); }
  void cut(Time until) {
    cut_until_ = until;
    good_ = false;
  }
  // Whether losses were always rare enough for sixteen tries to suffice.
  [[nodiscard]] bool good() const { return good_; }
  void calm() {
    loss_ = repetition_ = lateness_ = 0;
    cut_until_ = 0;
  }
  [[nodiscard]] const LinkCounts& counts() const { return counts_; }

 private:
  Time arrival_time(Time now);

  Random& random_;
  double loss_, repetition_, lateness_;
  Time cut_until_ = 0;
  bool good_;
  std::multimap<Time, Arrival> on_the_way_;
  LinkCounts counts_;
};

}  // namespace uroce::sim
