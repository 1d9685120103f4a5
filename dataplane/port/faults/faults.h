#pragma once

// Simulated faults of a port: SPEC of `uroced --faults`, for instance
//   "loss=0.01,dup=0.01,reorder=0.02,corrupt=0.001,delay=20us,seed=7"
//   "rate=10gbit,queue=400k,kmin=100k,kmax=400k,pmax=0.2,delay=50us"
//   "at=qp:0/psn:4:drop,at=qp:0/psn:4/iter:2:drop"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "dataplane/port/faults/bottleneck.h"
#include "dataplane/port/faults/fault_events.h"

namespace uroce {

// Probabilities of a frame's faults, each drawn independently.
struct Faults {
  double loss = 0;
  double dup = 0;
  double reorder = 0;  // held back until some later frames have passed
  double corrupt = 0;  // one bit is flipped
  Duration delay = 0;  // of each frame
  std::uint64_t seed = 1;
  BottleneckConfig bottleneck{};     // of each direction
  std::vector<FaultEvent> events{};  // kEventsMax at most

  [[nodiscard]] bool any() const {
    return loss > 0 || dup > 0 || reorder > 0 || corrupt > 0 || delay > 0 || bottleneck.rate != 0 ||
           !events.empty();
  }
};

// Keys as above, in any order and each at most once, but for `at`, an event. delay takes ns, us, ms
// or s, rate kbit, mbit or gbit, and bytes may end in k or m (1,000 and 1,000,000). EINVAL names
// the key that is wrong. An empty SPEC: no faults.
[[nodiscard]] Result<Faults> parse_faults(std::string_view spec);
[[nodiscard]] std::string to_string(const Faults& faults);

}  // namespace uroce
