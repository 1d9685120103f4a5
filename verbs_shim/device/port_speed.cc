// The speed of a port, in the unit of ibv_query_port_speed (rdma-core 62), which UCX, NCCL and
// ibv_devinfo use.

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/port_speed.h"
#include "verbs_shim/device/devices.h"
#include "verbs_shim/objects/newer_verbs.h"

namespace uroce::shim {
namespace {

// nullptr: no such code.
template <std::size_t kCount>
const PortSpeedCode* find_code(const PortSpeedCode (&codes)[kCount], std::uint32_t code) {
  const auto* const found = std::find_if(std::begin(codes), std::end(codes),
                                         [code](const PortSpeedCode& c) { return c.code == code; });
  return found != std::end(codes) ? found : nullptr;
}

}  // namespace

extern "C" int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  ibv_port_attr attr{};
  if (port == 0 || port > 0xFF) {
    return EINVAL;
  }
  if (const int error = query_port(context, static_cast<std::uint8_t>(port), &attr, sizeof(attr))) {
    return error;
  }
  const PortSpeedCode* const lanes = find_code(kLanes, attr.active_width);
  const PortSpeedCode* const lane = find_code(kLaneSpeeds, attr.active_speed);
  if (lanes == nullptr || lane == nullptr) {
    return ENODATA;
  }
  *speed = std::uint64_t{lanes->value} * lane->value;
  return 0;
}

}  // namespace uroce::shim
