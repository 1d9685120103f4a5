#pragma once

// Latency histograms by kind (latency.def), of a queue pair or of all of a port.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "base/enum_array.h"
#include "dataplane/qp/latency/latency_histogram.h"

namespace uroce {

enum class LatencyKind : std::uint8_t {
#define UROCE_LATENCY(enumerator, name, explanation) enumerator,
#include "dataplane/qp/latency/latency.def"
#undef UROCE_LATENCY
};

// A line of latency.def.
struct LatencyText {
  std::string_view name, explanation;
};
inline constexpr LatencyText kLatencyTexts[] = {
#define UROCE_LATENCY(enumerator, name, explanation) {#name, explanation},
#include "dataplane/qp/latency/latency.def"
#undef UROCE_LATENCY
};
inline constexpr std::size_t kLatencyCount = std::size(kLatencyTexts);

// A histogram exists once it has a sample: most queue pairs do one thing only, and many nothing.
class Latencies {
 public:
  // Takes memory for the first one of its kind; without any the sample isn't counted.
  void add(LatencyKind of, Duration took) {
    const auto index = static_cast<std::size_t>(of);
    if (LatencyHistogram* const histogram = make(index)) {
      newest_buckets_[index] = histogram->add(took);
      newest_ = of < LatencyKind::kQueued ? static_cast<std::uint8_t>(index) : newest_;
    }
  }

  // A work request is about to be begun, and perhaps done: brings what it will probably be counted
  // in towards the processor, if it takes about as long as the one before and is of its kind.
  void prefetch() const {
    for (const std::size_t of :
         {static_cast<std::size_t>(LatencyKind::kQueued), std::size_t{newest_}}) {
      if (histograms_[of] != nullptr) {
        histograms_[of]->prefetch(newest_buckets_[of]);
      }
    }
  }

  // nullptr: there was none.
  [[nodiscard]] const LatencyHistogram* find(LatencyKind of) const { return histograms_[of].get(); }

  Latencies& operator+=(const Latencies& other) {
    for (std::size_t i = 0; i < kLatencyCount; ++i) {
      LatencyHistogram* const histogram = other.histograms_[i] != nullptr ? make(i) : nullptr;
      if (histogram != nullptr) {
        *histogram += *other.histograms_[i];
      }
    }
    return *this;
  }

  // As LatencyHistogram::keep_most().
  void keep_most(const Latencies& other) {
    for (std::size_t i = 0; i < kLatencyCount; ++i) {
      LatencyHistogram* const histogram = other.histograms_[i] != nullptr ? make(i) : nullptr;
      if (histogram != nullptr) {
        histogram->keep_most(*other.histograms_[i]);
      }
    }
  }

 private:
  [[nodiscard]] LatencyHistogram* make(std::size_t of) {
    if (histograms_[of] == nullptr) [[unlikely]] {
      histograms_[of].reset(new (std::nothrow) LatencyHistogram);
    }
    return histograms_[of].get();
  }

  EnumArray<LatencyKind, std::unique_ptr<LatencyHistogram>, kLatencyCount> histograms_;
  std::array<std::uint8_t, kLatencyCount> newest_buckets_{};  // that were counted in
  std::uint8_t newest_ = 0;                                   // of the kinds of operations
};

}  // namespace uroce
