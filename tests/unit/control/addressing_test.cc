#include "control/ip/path_resolution.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

class AddressingTest : public ::testing::Test {
 protected:
  AddressingTest()
      : device(0, port,
               {*parse_prefix("10.0.0.1/24"), *parse_prefix("10.5.0.1/24@5"),
                *parse_prefix("10.6.0.1/24@6")},
               {}, [](std::span<const std::byte>) {}) {}

  // The VLAN of the path from GID index `index` to `destination`, a neighbour that is known.
  std::uint16_t vlan_of_path(std::uint8_t index, const char* destination) {
    abi::AddressRecord address{};
    const Gid gid = *parse_ip(destination);
    std::copy(gid.bytes.begin(), gid.bytes.end(), std::begin(address.dgid));
    address.sgid_index = index;
    address.is_global = 1;
    address.port = 1;
    EXPECT_TRUE(check_address(device, address));
    const auto path = make_path(device, address, 0, 0, 1);
    EXPECT_TRUE(path && *path) << destination;
    return path && *path ? (*path)->vlan : 0xFFFF;
  }

  SilentPort port;
  Device device;
};

TEST_F(AddressingTest, APathIsInTheVlanOfItsSource) {
  constexpr EtherAddress kTheirs{{2, 0, 0, 0, 0, 2}};
  const Gid peer = *parse_ip("10.5.0.2");
  device.on_frame(build_arp_request(kTheirs, {peer, 5}, *parse_ip("10.5.0.1")), 1);
  EXPECT_EQ(vlan_of_path(2, "10.5.0.2"), 5U);
  EXPECT_EQ(vlan_of_path(2, "239.1.2.3"), 5U);
  EXPECT_EQ(vlan_of_path(1, "239.1.2.3"), 0U);
}

TEST_F(AddressingTest, WhatComesBackToUsIsInTheVlanWhereItIsTaken) {
  EXPECT_EQ(vlan_of_path(2, "10.6.0.1"), 6U);
  EXPECT_EQ(vlan_of_path(3, "10.0.0.1"), 0U);
}

}  // namespace
}  // namespace uroce::control
