// The UDP source port of a path.

#include "dataplane/wire/path.h"

namespace uroce {

std::uint16_t udp_source_port(std::uint32_t flow_label, std::uint32_t qpn,
                              std::uint32_t remote_qpn) {
  constexpr std::uint32_t kFlowLabelMask = 0xF'FFFF;
  constexpr std::uint32_t kLow14 = 0x3FFF;
  if (flow_label == 0) {
    std::uint64_t mix = std::uint64_t{qpn} * remote_qpn;
    mix ^= mix >> 20U;
    mix ^= mix >> 40U;
    flow_label = static_cast<std::uint32_t>(mix) & kFlowLabelMask;
  }
  const std::uint32_t folded =
      (flow_label & kLow14) ^ ((flow_label & ~kLow14 & kFlowLabelMask) >> 14U);
  return static_cast<std::uint16_t>(folded | 0xC000U);
}

}  // namespace uroce
