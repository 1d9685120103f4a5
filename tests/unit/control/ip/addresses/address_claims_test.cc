#include "control/ip/addresses/address_claims.h"

#include "tests/unit/control/ip/device_fixture.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

class ClaimsTest : public DeviceTest {
 protected:
  // The address of the line that the log gets now.
  std::optional<Gid> said(Time when) {
    const auto line = device.claims().next_line(when);
    return line ? std::optional(line->address) : std::nullopt;
  }
};

// Anybody can send claims, so they are bounded by our addresses, and the log by its throttle.
TEST_F(ClaimsTest, AnotherHostWithAnAddressOfOursIsNoticed) {
  constexpr EtherAddress kThird{{2, 0, 0, 0, 0, 3}};
  EXPECT_FALSE(device.on_frame(build_arp_request(kTheirs, kOurIp, kOurIp), now));
  ASSERT_NE(device.claims().find(kOurIp, now), nullptr);
  EXPECT_EQ(device.claims().find(kOurIp, now)->mac, kTheirs);
  EXPECT_EQ(said(now), kOurIp);
  EXPECT_FALSE(said(now + LineThrottle::kSilence)) << "said once";
  EXPECT_FALSE(device.on_frame(build_announcement(kTheirs, kOurIpv6), now));
  EXPECT_FALSE(device.on_frame(build_arp_request(kThird, kOurIp, kOurIp), now + 1));
  EXPECT_EQ(device.claims().find(kOurIp, now)->mac, kThird);
  EXPECT_FALSE(said(now + 1)) << "throttled";
  EXPECT_EQ(device.next_deadline(), now + LineThrottle::kSilence) << "whatever comes until then";
  now += LineThrottle::kSilence;
  EXPECT_EQ(said(now), kOurIpv6) << "it wasn't said yet";
  EXPECT_EQ(said(now + LineThrottle::kSilence), kOurIp);
  ASSERT_TRUE(device.remove_address(kOurIp));
  EXPECT_EQ(device.claims().find(kOurIp, now), nullptr);
}

// The other host has announced the address, or resolves somebody else from it: it hears ours once.
TEST_F(ClaimsTest, AnotherHostWithAnAddressOfOursHearsThatItIsOurs) {
  const FrameBytes announcement = build_announcement(kOurs, kOurIpv6);
  device.on_frame(build_announcement(kTheirs, kOurIpv6), now);
  EXPECT_EQ(sent, std::vector<FrameBytes>{announcement});
  device.on_frame(build_announcement(kTheirs, kOurIpv6), now);
  EXPECT_EQ(sent.size(), 1U) << "it would answer for ever";
  now += AddressClaims::kToldEvery;
  device.on_frame(build_announcement(kTheirs, kOurIpv6), now);
  EXPECT_EQ(sent.size(), 1U) << "it knows";
  device.on_frame(build_announcement({{2, 0, 0, 0, 0, 3}}, kOurIpv6), now);
  EXPECT_EQ(sent.size(), 2U) << "a third host hears of it, too";
  device.on_frame(build_announcement({{2, 0, 0, 0, 0, 4}}, kOurIpv6), now);
  EXPECT_EQ(sent.size(), 2U) << "not that often";
  now += AddressClaims::kToldEvery;
  device.on_frame(build_announcement({{2, 0, 0, 0, 0, 4}}, kOurIpv6), now);
  EXPECT_EQ(sent.size(), 3U) << "but later";
  now += AddressClaims::kHeardFor + 1;
  EXPECT_EQ(device.claims().find(kOurIpv6, now), nullptr) << "it has another address now";
  device.on_frame(build_solicitation(kTheirs, kOurIpv6, *parse_ip("fd00::77")), now);
  EXPECT_NE(device.claims().find(kOurIpv6, now), nullptr);
  EXPECT_EQ(sent.size(), 4U);
}

TEST_F(ClaimsTest, ClaimsOfOneAddressDontKeepAnothersFromTheLog) {
  const auto claim = [this](std::uint8_t host, const Gid& address) {
    device.on_frame(build_arp_request({{2, 0, 0, 0, 1, host}}, address, address), now);
  };
  ASSERT_TRUE(device.add_address(*parse_prefix("10.0.0.9/24")));
  claim(1, kOurIp);
  EXPECT_EQ(said(now), kOurIp);
  now += LineThrottle::kSilence;
  claim(2, kOurIp);
  claim(1, *parse_ip("10.0.0.9"));
  EXPECT_EQ(said(now), *parse_ip("10.0.0.9"));
  now += AddressClaims::kHeardFor + 1;
  EXPECT_EQ(device.claims().find(kOurIp, now), nullptr) << "not heard for so long";
  EXPECT_EQ(said(now), kOurIp) << "it was to be said before";
}

TEST_F(ClaimsTest, WhoUsesAddressesOfItsOwnClaimsNone) {
  device.on_frame(build_arp_request(kOurs, kOurIp, kOurIp), now);                  // the kernel's
  device.on_frame(build_arp_request(kTheirs, {kOurIp, 5}, kOurIp), now);           // another VLAN
  device.on_frame(build_arp_request(kTheirs, *parse_ip("0.0.0.0"), kOurIp), now);  // a probe
  device.on_frame(build_arp_request(kTheirs, kTheirIp, kOurIp), now);
  EXPECT_EQ(device.claims().find(kOurIp, now), nullptr);
}

}  // namespace
}  // namespace uroce::control
