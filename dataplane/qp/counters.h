#pragma once

// What is counted of the transport (counters.def), for a queue pair or for all of a port.

#include <cstdint>
#include <string_view>

namespace uroce {

struct RoceCounters {
#define UROCE_QP_COUNTER(name, explanation) std::uint64_t name = 0;
#define UROCE_PORT_COUNTER(name, explanation) std::uint64_t name = 0;
#include "dataplane/qp/counters.def"
#undef UROCE_PORT_COUNTER
#undef UROCE_QP_COUNTER

  RoceCounters& operator+=(const RoceCounters& other);
};

// A line of counters.def.
struct RoceCounter {
  std::string_view name;
  std::uint64_t RoceCounters::*member;
  bool of_port_only;
  std::string_view explanation;
};
inline constexpr RoceCounter kRoceCounters[] = {
#define UROCE_QP_COUNTER(name, explanation) {#name, &RoceCounters::name, false, explanation},
#define UROCE_PORT_COUNTER(name, explanation) {#name, &RoceCounters::name, true, explanation},
#include "dataplane/qp/counters.def"
#undef UROCE_PORT_COUNTER
#undef UROCE_QP_COUNTER
};

inline RoceCounters& RoceCounters::operator+=(const RoceCounters& other) {
  for (const RoceCounter& counter : kRoceCounters) {
    this->*counter.member += other.*counter.member;
  }
  return *this;
}

}  // namespace uroce
