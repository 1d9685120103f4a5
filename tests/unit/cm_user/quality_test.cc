// The effect of a program's type of service: the service level, which is the priority in VLAN tags,
// on both sides of a connection. Also the rate of a path.

#include <infiniband/verbs.h>

#include <cerrno>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

// An address without a VLAN, and one in VLAN 5.
class Quality : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(rig.card.devices()[0].add_address(*parse_prefix("10.5.0.1/24@5")));
  }
  void set_tos(std::uint32_t id, std::uint8_t tos) {
    EXPECT_EQ(program.set_option(channel, id, RDMA_OPTION_ID_TOS, tos).error, 0);
  }
  // An id with a route to `address`, which is one of the card's own.
  std::uint32_t route_to(const char* address, std::uint8_t tos) {
    const std::uint32_t id = program.create_id(channel, 22);
    set_tos(id, tos);
    EXPECT_EQ(program.resolve(channel, id, address, kPort).error, 0);
    program.expect_event(channel, kAddrResolved);
    EXPECT_EQ(program.resolve_route(channel, id).error, 0);
    program.expect_event(channel, kRouteResolved);
    return id;
  }
  std::uint32_t level_of_route(const char* address, std::uint8_t tos) {
    return program.query_route(channel, route_to(address, tos)).ib_route[0].sl;
  }
  ib_uverbs_ah_attr path_of_qp(std::uint32_t id) {
    rdma_ucm_init_qp_attr attributes{};
    attributes.id = id;
    attributes.qp_state = IBV_QPS_RTR;
    return program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, attributes)
        .as<ib_uverbs_qp_attr>()
        .ah_attr;
  }
  // The id created by the connection request.
  std::uint32_t request(std::uint32_t active) {
    EXPECT_EQ(program.connect(channel, active, 100).error, 0);
    return program.expect_event(channel, kConnectRequest).id;
  }
  std::uint32_t listen(const char* address) {
    const std::uint32_t id = program.create_id(channel, 11);
    EXPECT_EQ(program.bind(channel, id, address, kPort).error, 0);
    EXPECT_EQ(program.listen(channel, id).error, 0);
    return id;
  }

  Rig rig;
  CmProgram program{rig};
  ProgramChannel channel = program.open_channel();
};

// Linux's ip_tos2prio: 0 best effort, 2 bulk, 6 interactive, 4 both.
TEST_F(Quality, TheServiceLevelFollowsFromTheTypeOfService) {
  EXPECT_EQ(level_of_route("10.5.0.1", 0), 0U);
  EXPECT_EQ(level_of_route("10.5.0.1", 8), 2U);
  EXPECT_EQ(level_of_route("10.5.0.1", 16), 6U);
  EXPECT_EQ(level_of_route("10.5.0.1", 24), 4U);
  EXPECT_EQ(level_of_route("10.5.0.1", 106), 2U) << "DSCP 26 with an ECN bit, as in RoCE guides";
  EXPECT_EQ(level_of_route("10.0.0.1", 16), 0U) << "without a VLAN there is no priority";
}

TEST_F(Quality, BothSidesUseTheActiveSidesTypeOfService) {
  listen("10.5.0.1");
  const std::uint32_t active = route_to("10.5.0.1", 16);
  const std::uint32_t passive = request(active);
  EXPECT_EQ(path_of_qp(passive).sl, 6);
  EXPECT_EQ(path_of_qp(passive).grh.traffic_class, 16) << "as Linux answers";
  EXPECT_EQ(program.query_route(channel, passive).ib_route[0].sl, 6);
  ASSERT_EQ(program.accept(channel, passive, 33, 200).error, 0);
  program.expect_event(channel, kConnectResponse);
  EXPECT_EQ(path_of_qp(active).sl, 6);
  EXPECT_EQ(path_of_qp(active).grh.traffic_class, 16);
}

TEST_F(Quality, AListenersOwnTypeOfServiceTakesPrecedence) {
  set_tos(listen("10.5.0.1"), 8);
  const std::uint32_t passive = request(route_to("10.5.0.1", 16));
  EXPECT_EQ(path_of_qp(passive).sl, 2);
  EXPECT_EQ(path_of_qp(passive).grh.traffic_class, 8);
}

// A port with a link speed.
class FastPort : public SilentPort {
 public:
  explicit FastPort(std::uint32_t gbps) : gbps_(gbps) {}
  [[nodiscard]] PortInfo info() const override {
    PortInfo info = SilentPort::info();
    info.speed_mbps = gbps_ * 1'000;
    return info;
  }

 private:
  std::uint32_t gbps_;
};

TEST(PathRate, IsThePortsSpeed) {
  struct Row {
    std::uint32_t gbps;
    ibv_rate rate;
  };
  constexpr Row kRows[] = {
      {0, IBV_RATE_10_GBPS},    {1, IBV_RATE_2_5_GBPS},   {10, IBV_RATE_10_GBPS},
      {25, IBV_RATE_25_GBPS},   {40, IBV_RATE_40_GBPS},   {50, IBV_RATE_50_GBPS},
      {100, IBV_RATE_100_GBPS}, {200, IBV_RATE_200_GBPS}, {400, IBV_RATE_400_GBPS}};
  for (const Row& row : kRows) {
    Rig rig(std::make_unique<FastPort>(row.gbps), 1);
    CmProgram program(rig);
    const ProgramChannel channel = program.open_channel();
    const std::uint32_t id = program.create_id(channel, 1);
    ASSERT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, 0);
    EXPECT_EQ(program.query_route(channel, id).ib_route[0].rate, row.rate) << row.gbps << " Gb/s";
  }
}

}  // namespace
}  // namespace uroce::control::cm_user
