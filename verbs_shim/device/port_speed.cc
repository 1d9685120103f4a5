// The speed of a port, in the unit of ibv_query_port_speed (rdma-core 62), which UCX, NCCL and
// ibv_devinfo use.

#include <algorithm>
#include <iterator>

#include "verbs_shim/device/devices.h"
#include "verbs_shim/objects/newer_verbs.h"

namespace uroce::shim {
namespace {

struct Lanes {
  std::uint8_t code;
  std::uint64_t count;
};
constexpr Lanes kWidths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

// Codes of ibv_port_attr.active_speed, and the speed of one lane: SDR, DDR, QDR, FDR10, FDR, EDR,
// HDR, NDR.
struct LaneSpeed {
  std::uint8_t code;
  std::uint64_t hundred_mbps;
};
constexpr LaneSpeed kSpeeds[] = {{1, 25},   {2, 50},   {4, 100},  {8, 100},
                                 {16, 140}, {32, 250}, {64, 500}, {128, 1'000}};

}  // namespace

extern "C" int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  ibv_port_attr attr{};
  if (port == 0 || port > 0xFF) {
    return EINVAL;
  }
  if (const int error = query_port(context, static_cast<std::uint8_t>(port), &attr, sizeof(attr))) {
    return error;
  }
  const auto* lanes = std::find_if(std::begin(kWidths), std::end(kWidths),
                                   [&](const Lanes& l) { return l.code == attr.active_width; });
  const auto* lane = std::find_if(std::begin(kSpeeds), std::end(kSpeeds),
                                  [&](const LaneSpeed& s) { return s.code == attr.active_speed; });
  if (lanes == std::end(kWidths) || lane == std::end(kSpeeds)) {
    return ENODATA;
  }
  *speed = lanes->count * lane->hundred_mbps;
  return 0;
}

}  // namespace uroce::shim
