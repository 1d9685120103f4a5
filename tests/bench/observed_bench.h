#pragma once

// What it costs to be looked at: messages with latency histograms and scrapes against the same
// without, and with a capture that takes every frame.

#include <cstdint>

#include "base/time.h"

namespace uroce::bench {

// Rates, as parts of those of the same messages when nobody looks.
struct ObservedFigures {
  double write_8b = 0, write_64k = 0, direct_8b = 0;  // with histograms and scrapes
  double captured_8b = 0, captured_64k = 0;           // with a capture of whole frames
};

// Scrapes are one a second. Medians of many short rounds, ten seconds in all; `brief`: of
// few, which only show that it runs.
[[nodiscard]] ObservedFigures measure_observed(bool brief);

}  // namespace uroce::bench
