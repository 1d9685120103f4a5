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

  // From GID index `index` to `destination`.
  static abi::AddressRecord address_of(std::uint8_t index, const char* destination) {
    abi::AddressRecord address{};
    const Gid gid = *parse_ip(destination);
    std::copy(gid.bytes.begin(), gid.bytes.end(), std::begin(address.dgid));
    address.sgid_index = index;
    address.is_global = 1;
    address.port = 1;
    return address;
  }
  // The path to a known neighbour.
  Path path_to(const abi::AddressRecord& address) {
    EXPECT_TRUE(check_address(device, address));
    const auto path = make_path(device, address, 0, 0, 1);
    EXPECT_TRUE(path && *path);
    return path && *path ? **path : Path{};
  }
  std::uint16_t vlan_of_path(std::uint8_t index, const char* destination) {
    return path_to(address_of(index, destination)).vlan;
  }
  void know(const char* neighbour, std::uint16_t vlan, const char* ours) {
    device.on_frame(
        build_arp_request({{2, 0, 0, 0, 0, 2}}, {*parse_ip(neighbour), vlan}, *parse_ip(ours)), 1);
  }

  SilentPort port;
  Device device;
};

TEST_F(AddressingTest, APathIsInTheVlanOfItsSource) {
  know("10.5.0.2", 5, "10.5.0.1");
  EXPECT_EQ(vlan_of_path(2, "10.5.0.2"), 5U);
  EXPECT_EQ(vlan_of_path(2, "239.1.2.3"), 5U);
  EXPECT_EQ(vlan_of_path(1, "239.1.2.3"), 0U);
}

TEST_F(AddressingTest, APathToAnOwnAddressUsesTheVlanOfThatAddress) {
  EXPECT_EQ(vlan_of_path(2, "10.6.0.1"), 6U);
  EXPECT_EQ(vlan_of_path(3, "10.0.0.1"), 0U);
}

TEST_F(AddressingTest, TheServiceLevelIsThePriorityInTheVlansTag) {
  know("10.5.0.2", 5, "10.5.0.1");
  abi::AddressRecord address = address_of(2, "10.5.0.2");
  address.sl = 3;
  EXPECT_EQ(path_to(address).vlan, 3U << 13U | 5U);
  address.sl = 0xF;
  EXPECT_EQ(path_to(address).vlan, 7U << 13U | 5U) << "a tag has three bits for it";
  address = address_of(1, "239.1.2.3");
  address.sl = 3;
  EXPECT_EQ(path_to(address).vlan, 0U) << "without a VLAN there is no tag";
}

TEST_F(AddressingTest, OnlyGroupsKeepAHopLimitBelowTwo) {
  know("10.5.0.2", 5, "10.5.0.1");
  for (const std::uint8_t hops : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{5}}) {
    abi::AddressRecord address = address_of(1, "239.1.2.3");
    address.hop_limit = hops;
    EXPECT_EQ(path_to(address).hop_limit, hops) << "the sender limits a group's scope";
    address = address_of(2, "10.5.0.2");
    address.hop_limit = hops;
    EXPECT_EQ(path_to(address).hop_limit, hops > 1 ? hops : 64);
  }
}

}  // namespace
}  // namespace uroce::control
