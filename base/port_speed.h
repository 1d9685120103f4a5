#pragma once

// What the codes of a port's speed mean, as ibv_port_attr has them (IBTA vol. 1, 14.2.5.6).

#include <cstdint>

namespace uroce {

struct PortSpeedCode {
  std::uint32_t code, value;
};

// active_width: how many lanes.
inline constexpr PortSpeedCode kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

// active_speed: a lane's speed in units of 100 Mb/s. SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR.
inline constexpr PortSpeedCode kLaneSpeeds[] = {{1, 25},   {2, 50},   {4, 100},  {8, 100},
                                                {16, 140}, {32, 250}, {64, 500}, {128, 1'000}};

}  // namespace uroce
