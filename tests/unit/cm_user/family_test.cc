// Wildcard addresses of both families at one port, and the options that decide who shares a port:
// RDMA_OPTION_ID_AFONLY and RDMA_OPTION_ID_REUSEADDR.

#include <cerrno>

#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

class Families : public TwoPrograms {
 protected:
  static constexpr std::uint64_t kIpv4Uid = 4, kIpv6Uid = 6;

  std::uint32_t create(std::uint64_t uid) { return server.create_id(server_channel, uid); }
  int set_option(std::uint32_t id, std::uint32_t name, int value) {
    return server.set_option(server_channel, id, name, value).error;
  }
  void set_family_only(std::uint32_t id, int value) {
    ASSERT_EQ(set_option(id, RDMA_OPTION_ID_AFONLY, value), 0);
  }
  int set_reuse(std::uint32_t id, int value) {
    return set_option(id, RDMA_OPTION_ID_REUSEADDR, value);
  }
  int bind(std::uint32_t id, const char* address) {
    rdma_ucm_bind body{};
    const Endpoint endpoint = endpoint_of(*parse_ip(address), kPort);
    body.addr_size = static_cast<std::uint16_t>(
        store_sockaddr(endpoint, std::as_writable_bytes(std::span(&body.addr, 1))));
    body.id = id;
    return server.command(server_channel, RDMA_USER_CM_CMD_BIND, body).error;
  }
  int listen_at(std::uint32_t id) { return server.listen(server_channel, id).error; }
  // Whose listener gets a request to the address: its uid.
  std::uint64_t asked_at(const char* address) {
    active = client.create_id(client_channel, kClientUid);
    EXPECT_EQ(client.resolve(client_channel, active, address, kPort).error, 0);
    client.expect_event(client_channel, kAddrResolved);
    EXPECT_EQ(client.resolve_route(client_channel, active).error, 0);
    client.expect_event(client_channel, kRouteResolved);
    EXPECT_EQ(client.connect(client_channel, active, next_qpn++).error, 0);
    return server.expect_event(server_channel, kConnectRequest).uid;
  }
};

TEST_F(Families, AnIpv4WildcardLeavesIpv6ToAListenerOfItsOwn) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  set_family_only(ipv6, 1);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), 0);
  EXPECT_EQ(bind(ipv6, "::"), 0);
  EXPECT_EQ(listen_at(ipv4), 0);
  EXPECT_EQ(listen_at(ipv6), 0);
  EXPECT_EQ(asked_at("10.0.0.1"), kIpv4Uid);
  EXPECT_EQ(asked_at("fd00::1"), kIpv6Uid);
}

TEST_F(Families, AnIpv6WildcardCoversIpv4) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  EXPECT_EQ(bind(ipv6, "::"), 0);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), EADDRINUSE);
  EXPECT_EQ(bind(ipv4, "10.0.0.1"), EADDRINUSE);
  EXPECT_EQ(listen_at(ipv6), 0);
  EXPECT_EQ(asked_at("10.0.0.1"), kIpv6Uid);
}

TEST_F(Families, AnIpv4WildcardCoversIpv6IfTheProgramSaysSo) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  set_family_only(ipv4, 0);
  set_family_only(ipv6, 1);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), 0);
  EXPECT_EQ(bind(ipv6, "::"), EADDRINUSE);
  EXPECT_EQ(listen_at(ipv4), 0);
  EXPECT_EQ(asked_at("fd00::1"), kIpv4Uid);
}

// What a program sets between binding and listening holds, as in Linux.
TEST_F(Families, AnOptionThatIsSetAfterBindingCounts) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  EXPECT_EQ(bind(ipv6, "::"), 0);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), EADDRINUSE);
  set_family_only(ipv6, 1);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), 0);
  EXPECT_EQ(listen_at(ipv4), 0);
  EXPECT_EQ(listen_at(ipv6), 0);
}

// Otherwise a program could keep others, who have bound to their address, from listening.
TEST_F(Families, AnOptionDoesntTakeWhatAnotherHasBound) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), 0);
  set_family_only(ipv6, 1);
  EXPECT_EQ(bind(ipv6, "::"), 0);
  EXPECT_EQ(set_option(ipv6, RDMA_OPTION_ID_AFONLY, 0), EADDRINUSE);
  EXPECT_EQ(listen_at(ipv4), 0);
  EXPECT_EQ(listen_at(ipv6), 0) << "it is still for IPv6 only";
  EXPECT_EQ(asked_at("fd00::1"), kIpv6Uid);
  EXPECT_EQ(asked_at("10.0.0.1"), kIpv4Uid);
}

// As in Linux: when both have asked for it.
TEST_F(Families, AnOptionMayTakeWhatOthersShare) {
  const std::uint32_t ipv4 = create(kIpv4Uid), ipv6 = create(kIpv6Uid);
  EXPECT_EQ(set_reuse(ipv4, 1), 0);
  EXPECT_EQ(set_reuse(ipv6, 1), 0);
  EXPECT_EQ(bind(ipv4, "0.0.0.0"), 0);
  set_family_only(ipv6, 1);
  EXPECT_EQ(bind(ipv6, "::"), 0);
  set_family_only(ipv6, 0);
  EXPECT_EQ(listen_at(ipv4), EADDRINUSE) << "one of them may listen, if the other gives way";
}

// As in Linux: it can be asked for at any time but while listening, and taken back before binding.
TEST_F(Families, WhenAnAddressMayBeMadeReusable) {
  const std::uint32_t id = create(kIpv4Uid);
  EXPECT_EQ(set_reuse(id, 1), 0);
  EXPECT_EQ(set_reuse(id, 0), 0);
  EXPECT_EQ(bind(id, "10.0.0.1"), 0);
  EXPECT_EQ(set_reuse(id, 0), EINVAL) << "bound";
  EXPECT_EQ(set_reuse(id, 1), 0);
  EXPECT_EQ(listen_at(id), 0);
  EXPECT_EQ(set_reuse(id, 1), EINVAL) << "listening";
  const std::uint32_t connecting = create(kIpv6Uid);
  EXPECT_EQ(server.resolve(server_channel, connecting, "10.0.0.1", kPort).error, 0);
  EXPECT_EQ(set_reuse(connecting, 1), 0);
  EXPECT_EQ(set_option(connecting, RDMA_OPTION_ID_AFONLY, 1), EINVAL);
}

}  // namespace
}  // namespace uroce::control::cm_user
