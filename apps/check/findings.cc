#include "apps/check/findings.h"

#include <numeric>
#include <utility>

namespace uroce::check {

std::string_view name(Fault fault) {
  static constexpr std::string_view kNames[] = {
#define UROCE_FAULT(enumerator, name, explanation) name,
#include "apps/check/fault.def"
#undef UROCE_FAULT
  };
  return kNames[static_cast<std::size_t>(fault)];
}

void Findings::add(Fault fault, Place place, std::string sentence) {
  ++counts_[fault];
  if (kept_.size() < kKeptMax) {
    kept_.push_back({.fault = fault, .place = place, .sentence = std::move(sentence)});
  }
}

std::uint64_t Findings::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

}  // namespace uroce::check
