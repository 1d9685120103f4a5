#pragma once

// The cost of observation: messages with latency histograms and scrapes compared with the same
// without, and with a capture of every frame.

#include <cstdint>

#include "base/time.h"

namespace uroce::bench {

// Rates, relative to those of the same messages without observation.
struct ObservedFigures {
  double write_8b = 0, write_64k = 0, direct_8b = 0;  // with histograms and scrapes
  double captured_8b = 0, captured_64k = 0;           // with a capture of whole frames
};

// One scrape per second. Medians of many short rounds, ten seconds in all; `brief`: of a few, which
// only show that it runs.
[[nodiscard]] ObservedFigures measure_observed(bool brief);

}  // namespace uroce::bench
