#pragma once

// A port with two addresses, and what it sends.

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "control/ip/device.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {

class DeviceTest : public ::testing::Test {
 protected:
  DeviceTest()
      : device(0, port, {*parse_prefix("10.0.0.1/24"), *parse_prefix("fd00::1/64")}, {},
               [this](std::span<const std::byte> frame) {
                 sent.emplace_back(frame.begin(), frame.end());
               }) {}
  // The ARP packet that was sent last.
  Arp last_arp() {
    const auto frame = parse_ethernet(sent.back());
    return *parse_arp(*frame);
  }

  SilentPort port;
  std::vector<FrameBytes> sent;
  Device device;
  Time now = 1000;
  EtherAddress mac;
};

}  // namespace uroce::control
