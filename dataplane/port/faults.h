#pragma once

// Faults that a port can be told to have: SPEC of `uroced --faults`, for instance
// "loss=0.01,dup=0.01,reorder=0.02,corrupt=0.001,delay=20us,seed=7".

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace uroce {

// Probabilities of a frame's fate, each drawn by itself.
struct Faults {
  double loss = 0;
  double dup = 0;
  double reorder = 0;  // held back until some later frames have passed
  double corrupt = 0;  // one bit is flipped
  Duration delay = 0;  // of each frame
  std::uint64_t seed = 1;

  [[nodiscard]] bool any() const {
    return loss > 0 || dup > 0 || reorder > 0 || corrupt > 0 || delay > 0;
  }
};

// Keys as above, each at most once and in any order; delay takes ns, us, ms or s. EINVAL names the
// key that is wrong. An empty SPEC is no faults.
[[nodiscard]] Result<Faults> parse_faults(std::string_view spec);
[[nodiscard]] std::string to_string(const Faults& faults);

}  // namespace uroce
