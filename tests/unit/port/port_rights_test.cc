#include "dataplane/port/ethdev/port_rights.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace uroce {
namespace {

TEST(PortRights, PortsWithoutADriverTakeNone) {
  for (const char* spec : {"loopback", "udp", "udp,iface=eth0", "shm,path=/x", "net_vhost0"}) {
    EXPECT_EQ(capabilities_to_open(spec), 0U) << spec;
    EXPECT_EQ(missing_rights(spec), "") << spec;
  }
}

// Gives up all but `kept`, in a thread of its own, as the others keep theirs.
std::string missing_with(Capabilities kept, const std::string& spec) {
  std::string text;
  std::thread([&] {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct halves[_LINUX_CAPABILITY_U32S_3] = {};
    EXPECT_EQ(::syscall(SYS_capget, &header, halves), 0);
    halves[0].effective &= static_cast<std::uint32_t>(kept);
    halves[1].effective &= static_cast<std::uint32_t>(kept >> 32);
    EXPECT_EQ(::syscall(SYS_capset, &header, halves), 0);
    text = missing_rights(spec);
  }).join();
  return text;
}

TEST(PortRights, NamesThoseThatAreMissing) {
  const std::string none = missing_with(0, "net_af_packet0,iface=eth0");
  EXPECT_TRUE(none.starts_with("; uroced lacks CAP_NET_RAW, which ")) << none;
  EXPECT_TRUE(missing_with(0, "net_tap0").starts_with("; uroced lacks CAP_NET_ADMIN, which "));
  const std::string several = missing_with(0, "net_af_xdp0,iface=eth0");
  EXPECT_TRUE(several.starts_with("; uroced lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF, "))
      << several;
}

// CAP_BPF is in the second word of the sets.
TEST(PortRights, DoesntNameThoseThatAreThere) {
  const Capabilities all = capabilities_to_open("net_af_xdp0,iface=eth0");
  if ((all & ~effective_capabilities()) != 0) {
    GTEST_SKIP() << "runs without root's capabilities";
  }
  EXPECT_EQ(missing_with(all, "net_af_xdp0,iface=eth0"), "");
  const std::string unit =
      missing_with(all & ~capability_bit(CAP_SYS_ADMIN), "net_af_xdp0,iface=eth0");
  EXPECT_TRUE(unit.starts_with("; uroced lacks CAP_SYS_ADMIN, which ")) << unit;
}

}  // namespace
}  // namespace uroce
