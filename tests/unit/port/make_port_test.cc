// Ports by the names that users give them, and the resulting arguments for DPDK.

#include "dataplane/port/make_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/port/ethdev/eal.h"
#include "dataplane/port/ethdev/vdev_spec.h"
#include "dataplane/port/host_interface.h"

namespace uroce {
namespace {

TEST(MakePort, KnowsPciAddresses) {
  EXPECT_TRUE(is_pci_address("0000:01:00.0"));
  EXPECT_TRUE(is_pci_address("af:1f.7"));
  EXPECT_FALSE(is_pci_address("0000:01:00.8"));
  EXPECT_FALSE(is_pci_address("0000-01:00.0"));
  EXPECT_FALSE(is_pci_address("loopback"));
  EXPECT_FALSE(is_pci_address(""));
}

TEST(MakePort, MakesTheLoopbackWithoutAnEal) {
  auto port = make_port("loopback", {.mtu = 4'200, .queues = 2});
  ASSERT_TRUE(port);
  EXPECT_EQ((*port)->info().mtu, 4'200U);
  EXPECT_EQ((*port)->info().queues, 2U);
}

TEST(MakePort, LoopbacksOfADaemonDifferInTheirEthernetAddress) {
  auto first = make_port("loopback", {});
  auto second = make_port("loopback", {.number = 1});
  ASSERT_TRUE(first && second);
  EXPECT_NE((*first)->info().mac, (*second)->info().mac);
}

TEST(MakePort, RefusalsNameTheSpec) {
  for (const char* spec : {"eth0", "", "net_memif0"}) {
    auto port = make_port(spec, {});
    ASSERT_FALSE(port) << spec;
    EXPECT_NE(port.error().message.find("port " + std::string(spec)), std::string::npos);
  }
  EXPECT_FALSE(make_port("loopback", {.mtu = 100}));
  EXPECT_FALSE(make_port("loopback", {.mtu = 100'000}));
}

TEST(MakePort, APacketPortNamesItsInterface) {
  for (const char* spec : {"net_af_packet0", "net_af_packet0,framesz=4096", "net_af_xdp0,iface="}) {
    auto port = make_port(spec, {});
    ASSERT_FALSE(port) << spec;
    EXPECT_NE(port.error().message.find("name the interface: net_af_"), std::string::npos)
        << port.error().message;
  }
}

TEST(VdevSpec, GivesDriversRoomForTheMtu) {
  const VdevSpec memif = complete_vdev("net_memif0,role=server", 4'200, 1);
  EXPECT_EQ(memif.name, "net_memif0");
  EXPECT_EQ(memif.arguments, "role=server,bsize=4224");
  EXPECT_TRUE(memif.mtu_by_arguments);
  const VdevSpec packet = complete_vdev("net_af_packet0,iface=v0", 4'200, 2);
  EXPECT_EQ(vdev_argument(packet.arguments, "framesz"), "8192");
  EXPECT_EQ(vdev_argument(packet.arguments, "qpairs"), "2");
  EXPECT_GE(packet.buffer_bytes, 8'192U);
}

// ixgbe takes buffers in units of a KiB, virtio puts 12 bytes in front of a frame.
TEST(VdevSpec, GivesCardsWholeUnitsForAFrameAndTheirOwnHeader) {
  for (const std::uint32_t mtu : {576U, 1'500U, 4'200U, 9'000U, 9'600U}) {
    const VdevSpec card = card_spec("0000:03:00.0", mtu);
    EXPECT_EQ(card.name, "0000:03:00.0");
    EXPECT_GE(card.buffer_bytes, mtu + kEthernetOverhead + 12);
    EXPECT_EQ(card.buffer_bytes % 1'024, 0U);
  }
}

TEST(VdevSpec, KnowsWhichDriversUseAKernelInterface) {
  for (const char* spec : {"net_af_packet0,iface=v0", "net_af_xdp0,iface=v0", "net_tap0"}) {
    EXPECT_TRUE(complete_vdev(spec, 1'500, 1).on_interface) << spec;
  }
  EXPECT_FALSE(complete_vdev("net_memif0", 1'500, 1).on_interface);
}

TEST(HostInterface, TroubleIsASentence) {
  HostInterface wire{.name = "wire", .index = 3, .mtu = 1'500, .set_up = true, .up = true};
  EXPECT_EQ(interface_trouble("wire", wire, 1'112), "");
  EXPECT_EQ(interface_trouble("wire", std::nullopt, 1'112),
            "the interface wire isn't there (`ip link` lists those there are)");
  wire.mtu = 700;
  EXPECT_NE(interface_trouble("wire", wire, 1'112).find("has an MTU of 700"), std::string::npos);
  wire.up = false;
  EXPECT_NE(interface_trouble("wire", wire, 1'112).find("no carrier"), std::string::npos);
  wire.set_up = false;
  EXPECT_NE(interface_trouble("wire", wire, 1'112).find("is down"), std::string::npos);
}

TEST(HostInterface, FindsTheLoopbackInterface) {
  const auto found = host_interface("lo");
  ASSERT_TRUE(found);
  EXPECT_GT(found->index, 0U);
  EXPECT_GT(found->mtu, 0U);
  EXPECT_FALSE(host_interface("no-such-one"));
}

TEST(VdevSpec, TheUsersOwnArgumentsWin) {
  const VdevSpec packet = complete_vdev("net_af_packet0,iface=v0,framesz=16384", 1'500, 1);
  EXPECT_EQ(vdev_argument(packet.arguments, "framesz"), "16384");
  EXPECT_EQ(packet.buffer_bytes, 16'384U);
  EXPECT_EQ(packet.arguments.find("framesz"), packet.arguments.rfind("framesz"));
}

TEST(VdevSpec, KnowsWhichSocketADriverMakes) {
  EXPECT_EQ(complete_vdev("net_virtio_user0,path=/a,server=1", 1'500, 1).listens_on, "/a");
  EXPECT_EQ(complete_vdev("net_virtio_user0,path=/a", 1'500, 1).listens_on, "");
  EXPECT_EQ(complete_vdev("net_vhost0,iface=/b", 1'500, 1).listens_on, "/b");
  EXPECT_EQ(complete_vdev("net_vhost0,iface=/b,client=1", 1'500, 1).listens_on, "");
}

bool has(const std::vector<std::string>& arguments, const std::string& wanted) {
  return std::find(arguments.begin(), arguments.end(), wanted) != arguments.end();
}

TEST(Eal, ProbesPciOnlyIfAPortIsAPciDevice) {
  EXPECT_TRUE(has(eal_arguments({.ports = {"loopback"}}), "--no-pci"));
  const auto arguments = eal_arguments({.ports = {"0000:01:00.0"}});
  EXPECT_FALSE(has(arguments, "--no-pci"));
  EXPECT_TRUE(has(arguments, "0000:01:00.0"));
}

TEST(Eal, TheUsersArgumentsComeLastAndReplaceOurs) {
  const auto arguments =
      eal_arguments({.workers = 2, .extra = {"--lcores=0@0,1@1,2@1", "-m", "64"}});
  EXPECT_EQ(arguments.back(), "64");
  EXPECT_EQ(std::count_if(arguments.begin(), arguments.end(),
                          [](const std::string& a) { return a.starts_with("--lcores"); }),
            1);
  EXPECT_FALSE(has(arguments, "--no-huge"));
}

TEST(Eal, GivesOneLcoreMoreThanWorkers) {
  const auto arguments = eal_arguments({.workers = 3});
  EXPECT_TRUE(std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument.starts_with("--lcores=(0-3)@(");
  }));
}

}  // namespace
}  // namespace uroce
