#include "control/cm_user/ucm_commands.h"

#include <infiniband/verbs.h>

#include <cerrno>

#include "tests/unit/cm_user/cm_program.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

constexpr std::uint64_t kListenUid = 11, kActiveUid = 22, kPassiveUid = 33;
// A listening id and one with a route to it, in one program on the loopback.
class Connecting : public testing::Test {
 protected:
  void SetUp() override {
    listening = program.create_id(channel, kListenUid);
    ASSERT_EQ(program.bind(channel, listening, "10.0.0.1", kPort).error, 0);
    ASSERT_EQ(program.listen(channel, listening).error, 0);
    active = program.create_id(channel, kActiveUid);
    ASSERT_EQ(program.resolve(channel, active, "10.0.0.1", kPort).error, 0);
    program.expect_event(channel, kAddrResolved);
    ASSERT_EQ(program.resolve_route(channel, active).error, 0);
    program.expect_event(channel, kRouteResolved);
  }

  // Connects until both sides are established. Returns the passive id.
  std::uint32_t connect() {
    EXPECT_EQ(program.connect(channel, active, 100, "hello").error, 0);
    const std::uint32_t passive = program.expect_event(channel, kConnectRequest).id;
    EXPECT_EQ(program.accept(channel, passive, kPassiveUid, 200).error, 0);
    program.expect_event(channel, kConnectResponse);
    EXPECT_EQ(program.establish(channel, active).error, 0);
    program.expect_event(channel, kEstablished);
    return passive;
  }

  Rig rig;
  CmProgram program{rig};
  ProgramChannel channel = program.open_channel();
  std::uint32_t listening = 0, active = 0;
};

TEST_F(Connecting, BothSidesLearnOfEachOther) {
  ASSERT_EQ(program.connect(channel, active, 100, "hello").error, 0);
  const auto request = program.expect_event(channel, kConnectRequest);
  EXPECT_EQ(request.uid, kListenUid);
  EXPECT_EQ(request.param.conn.qp_num, 100U);
  EXPECT_EQ(request.param.conn.private_data_len, 56);
  EXPECT_STREQ(reinterpret_cast<const char*>(request.param.conn.private_data), "hello");

  const auto route = program.query_route(channel, request.id);
  EXPECT_EQ(route.num_paths, 1U);
  EXPECT_EQ(route.port_num, 1);
  EXPECT_EQ(route.ibdev_index, rig.card.devices()[0].instance()) << "by which librdmacm finds it";
  EXPECT_EQ(*parse_sockaddr(std::as_bytes(std::span(&route.src_addr, 1))),
            endpoint_of(*parse_ip("10.0.0.1"), kPort));

  ASSERT_EQ(program.accept(channel, request.id, kPassiveUid, 200, "welcome").error, 0);
  const auto response = program.expect_event(channel, kConnectResponse);
  EXPECT_EQ(response.uid, kActiveUid);
  EXPECT_EQ(response.param.conn.qp_num, 200U);
  EXPECT_STREQ(reinterpret_cast<const char*>(response.param.conn.private_data), "welcome");

  ASSERT_EQ(program.establish(channel, active).error, 0);
  EXPECT_EQ(program.expect_event(channel, kEstablished).uid, kPassiveUid);
  EXPECT_FALSE(channel.readable());
}

TEST_F(Connecting, EceOptionsReachTheOtherSide) {
  ASSERT_EQ(program.connect(channel, active, 100, "", {.vendor_id = 0x2C9, .attr_mod = 7}).error,
            0);
  const auto request = program.expect_event(channel, kConnectRequest);
  EXPECT_EQ(request.ece.vendor_id, 0x2C9U);
  EXPECT_EQ(request.ece.attr_mod, 7U);
  ASSERT_EQ(
      program
          .accept(channel, request.id, kPassiveUid, 200, "", {.vendor_id = 0x123456, .attr_mod = 5})
          .error,
      0);
  const auto response = program.expect_event(channel, kConnectResponse);
  EXPECT_EQ(response.ece.vendor_id, 0x123456U);
  EXPECT_EQ(response.ece.attr_mod, 5U);
}

TEST_F(Connecting, QueuePairsGetTheAttributesOfTheirState) {
  rdma_ucm_init_qp_attr body{};
  body.id = active;
  body.qp_state = IBV_QPS_INIT;
  auto attributes =
      program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, body).as<ib_uverbs_qp_attr>();
  EXPECT_EQ(attributes.qp_access_flags, 0U);
  EXPECT_EQ(attributes.port_num, 1);
  body.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, body).error, EINVAL);

  connect();
  attributes =
      program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, body).as<ib_uverbs_qp_attr>();
  EXPECT_EQ(attributes.dest_qp_num, 200U);
  EXPECT_EQ(attributes.path_mtu, 5U);
  EXPECT_EQ(attributes.max_dest_rd_atomic, 4);
  EXPECT_EQ(attributes.min_rnr_timer, kMinRnrTimer);
  EXPECT_EQ(attributes.ah_attr.is_global, 1);
  EXPECT_EQ(attributes.ah_attr.grh.sgid_index, 1);
  body.qp_state = IBV_QPS_RTS;
  attributes =
      program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, body).as<ib_uverbs_qp_attr>();
  EXPECT_EQ(attributes.timeout, kPacketLifetime + 1);
  EXPECT_EQ(attributes.retry_cnt, 7);
}

// A peer with a limited number of retries must not give up because a program waits for a processor.
TEST_F(Connecting, ALimitedRnrRetryGetsALongerRnrTimer) {
  rdma_ucm_connect body{};
  body.id = active;
  body.conn_param.qp_num = 100;
  body.conn_param.rnr_retry_count = 5;
  body.conn_param.valid = 1;
  ASSERT_EQ(program.command(channel, RDMA_USER_CM_CMD_CONNECT, body).error, 0);
  const std::uint32_t passive = program.expect_event(channel, kConnectRequest).id;
  const auto timer_of = [this](std::uint32_t id) {
    rdma_ucm_init_qp_attr attributes{};
    attributes.id = id;
    attributes.qp_state = IBV_QPS_RTR;
    return program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, attributes)
        .as<ib_uverbs_qp_attr>()
        .min_rnr_timer;
  };
  EXPECT_EQ(timer_of(passive), kMinRnrTimerCounted);
  ASSERT_EQ(program.accept(channel, passive, kPassiveUid, 200).error, 0);
  program.expect_event(channel, kConnectResponse);
  EXPECT_EQ(timer_of(active), kMinRnrTimerCounted);
}

TEST_F(Connecting, ADisconnectIsReportedToBoth) {
  const std::uint32_t passive = connect();
  ASSERT_EQ(program.disconnect(channel, active).error, 0);
  EXPECT_EQ(program.expect_event(channel, kDisconnected).uid, kPassiveUid);
  EXPECT_EQ(program.disconnect(channel, passive).error, 0);
  EXPECT_EQ(program.expect_event(channel, kDisconnected).uid, kActiveUid);
}

TEST_F(Connecting, DestroyingAnIdTellsThePeer) {
  const std::uint32_t passive = connect();
  EXPECT_EQ(program.destroy_id(channel, passive).as<rdma_ucm_destroy_id_resp>().events_reported,
            1U);
  EXPECT_EQ(program.expect_event(channel, kDisconnected).uid, kActiveUid);
}

TEST_F(Connecting, ARefusalCarriesItsReasonAndData) {
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  rdma_ucm_reject body{};
  body.id = program.expect_event(channel, kConnectRequest).id;
  body.private_data_len = 3;
  std::memcpy(body.private_data, "no!", 3);
  ASSERT_EQ(program.command(channel, RDMA_USER_CM_CMD_REJECT, body).error, 0);
  const auto rejected = program.expect_event(channel, kRejected);
  EXPECT_EQ(rejected.uid, kActiveUid);
  EXPECT_EQ(rejected.status, 28U);  // consumer defined
  EXPECT_STREQ(reinterpret_cast<const char*>(rejected.param.conn.private_data), "no!");
}

TEST_F(Connecting, ConnectingWithoutAListenerIsRejected) {
  ASSERT_EQ(program.destroy_id(channel, listening).error, 0);
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  EXPECT_EQ(program.expect_event(channel, kRejected).status, 8U);  // invalid service id
}

TEST_F(Connecting, UnfetchedRequestsEndWithTheirListener) {
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  ASSERT_EQ(rig.connections.ids(), 3U);
  ASSERT_EQ(program.destroy_id(channel, listening).error, 0);
  program.expect_event(channel, kRejected);
  EXPECT_EQ(rig.connections.ids(), 1U);
}

TEST_F(Connecting, FetchedRequestsOutliveTheirListener) {
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  const std::uint32_t passive = program.expect_event(channel, kConnectRequest).id;
  ASSERT_EQ(program.destroy_id(channel, listening).error, 0);
  EXPECT_EQ(program.accept(channel, passive, kPassiveUid, 200).error, 0);
  program.expect_event(channel, kConnectResponse);
}

TEST_F(Connecting, TheIdsOfAProgramEndWithIt) {
  auto other = std::make_unique<CmProgram>(rig);
  const ProgramChannel theirs = other->open_channel();
  const std::uint32_t id = other->create_id(theirs, 1);
  ASSERT_EQ(other->resolve(theirs, id, "10.0.0.1", kPort).error, 0);
  other->expect_event(theirs, kAddrResolved);
  ASSERT_EQ(other->resolve_route(theirs, id).error, 0);
  other->expect_event(theirs, kRouteResolved);
  ASSERT_EQ(other->connect(theirs, id, 300).error, 0);
  const std::uint32_t passive = program.expect_event(channel, kConnectRequest).id;
  ASSERT_EQ(program.accept(channel, passive, kPassiveUid, 200).error, 0);
  other->expect_event(theirs, kConnectResponse);
  ASSERT_EQ(other->establish(theirs, id).error, 0);
  program.expect_event(channel, kEstablished);

  other.reset();
  EXPECT_EQ(program.expect_event(channel, kDisconnected).uid, kPassiveUid);
  EXPECT_EQ(rig.connections.ids(), 3U);
}

TEST_F(Connecting, MigratedIdsReportInTheirNewChannel) {
  const ProgramChannel second = program.open_channel();
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  EXPECT_TRUE(channel.readable());
  ASSERT_EQ(program.migrate(second, listening, channel).error, 0);
  EXPECT_FALSE(channel.readable());
  const std::uint32_t passive = program.expect_event(second, kConnectRequest).id;
  EXPECT_EQ(program.accept(second, passive, kPassiveUid, 200).error, 0);
}

// Handles are small numbers, so a program can guess that of a request it hasn't fetched.
TEST_F(Connecting, UnfetchedRequestsCannotBeNamed) {
  ASSERT_EQ(program.connect(channel, active, 100).error, 0);
  const ProgramChannel second = program.open_channel();
  const std::uint32_t fresh = active + 1;
  EXPECT_EQ(program.migrate(second, fresh, channel).error, ENOENT);
  EXPECT_EQ(program.accept(channel, fresh, kPassiveUid, 200).error, ENOENT);
  EXPECT_EQ(program.destroy_id(channel, fresh).error, ENOENT);
  EXPECT_EQ(program.destroy_id(second, fresh).error, ENOENT);
  // It follows its listening id to another channel, and ends with it.
  ASSERT_EQ(program.migrate(second, listening, channel).error, 0);
  EXPECT_EQ(program.destroy_id(second, fresh).error, ENOENT);
  ASSERT_EQ(program.destroy_id(second, listening).error, 0);
  EXPECT_FALSE(second.readable());
  program.expect_event(channel, kRejected);
  EXPECT_EQ(rig.connections.ids(), 1U);
}

class Accepting : public Connecting {
 protected:
  void SetUp() override {
    Connecting::SetUp();
    ASSERT_EQ(program.connect(channel, active, 100).error, 0);
    passive = program.expect_event(channel, kConnectRequest).id;
  }
  std::uint32_t passive = 0;
};

TEST_F(Accepting, DataBeforeTheRtuEstablishesToo) {
  const std::uint32_t qpn = program.make_qp();
  ASSERT_EQ(program.accept(channel, passive, kPassiveUid, qpn).error, 0);
  program.expect_event(channel, kConnectResponse);
  rig.connections.on_communication(qpn);
  EXPECT_EQ(program.expect_event(channel, kEstablished).uid, kPassiveUid);
}

TEST_F(Accepting, ARefusedAcceptDoesNotRecordTheQueuePair) {
  const std::uint32_t first = program.make_qp();
  rdma_ucm_accept body{};
  body.id = passive;
  body.conn_param.valid = 1;
  body.conn_param.qp_num = first;
  body.conn_param.private_data_len = 255;
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_ACCEPT, body).error, EINVAL);
  EXPECT_FALSE(rig.connections.names_queue_pair(first));
  ASSERT_EQ(program.accept(channel, passive, kPassiveUid, first).error, 0);
  EXPECT_TRUE(rig.connections.names_queue_pair(first));
  ASSERT_EQ(program.destroy_id(channel, passive).error, 0);
  EXPECT_FALSE(rig.connections.names_queue_pair(first));
}

TEST(Commands, ClosingAChannelDestroysItsIds) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  ASSERT_EQ(program.bind(channel, id, "10.0.0.1", kPort).error, 0);
  EXPECT_EQ(program.program.ask_about(abi::Command::kCmCloseChannel, channel.handle).header.error,
            0);
  EXPECT_EQ(rig.connections.ids(), 0U);
  EXPECT_EQ(rig.connections.ports().ports_taken(cm::PortSpace::kTcp), 0U);
}

TEST(Commands, BindingReportsErrors) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1);
  EXPECT_EQ(program.bind(channel, id, "10.9.9.9", kPort).error, EADDRNOTAVAIL);
  EXPECT_EQ(program.bind(channel, id + 1, "10.0.0.1", kPort).error, ENOENT);
  EXPECT_EQ(program.bind(channel, id, "10.0.0.1", kPort).error, 0);
  EXPECT_EQ(program.bind(channel, id, "10.0.0.1", kPort).error, EINVAL);
  const std::uint32_t second = program.create_id(channel, 2);
  EXPECT_EQ(program.bind(channel, second, "10.0.0.1", kPort).error, EADDRINUSE);
  rdma_ucm_bind other{};
  other.id = second;
  other.addr.ss_family = 27;  // AF_IB: librdmacm tries it first, and then uses IP addresses
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_BIND, other).error, EAFNOSUPPORT);
}

TEST(Commands, AMulticastGroupIsJoinedAndLeft) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t id = program.create_id(channel, 1, RDMA_PS_UDP);
  rdma_ucm_join_ip_mcast body{};
  body.id = id;
  body.uid = 77;
  body.addr = CmProgram::socket_address("239.1.2.3", 0);
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_JOIN_IP_MCAST, body).error, EINVAL);
  ASSERT_EQ(program.bind(channel, id, "10.0.0.1", 0).error, 0);
  const auto joined =
      program.command(channel, RDMA_USER_CM_CMD_JOIN_IP_MCAST, body).as<rdma_ucm_create_id_resp>();
  const auto event = program.expect_event(channel, kMulticastJoin);
  EXPECT_EQ(event.uid, 77U);
  EXPECT_EQ(event.param.ud.qp_num, 0xFFFFFFU);
  EXPECT_EQ(event.param.ud.qkey, kUdpQkey);
  EXPECT_EQ(event.param.ud.ah_attr.grh.dgid[15], 3);
  rdma_ucm_destroy_id leave{};
  leave.id = joined.id;
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_LEAVE_MCAST, leave)
                .as<rdma_ucm_destroy_id_resp>()
                .events_reported,
            1U);
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_LEAVE_MCAST, leave).error, ENOENT);
}

TEST(Commands, ADatagramServiceIsFound) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  const std::uint32_t listening = program.create_id(channel, kListenUid, RDMA_PS_UDP);
  ASSERT_EQ(program.bind(channel, listening, "10.0.0.1", kPort).error, 0);
  ASSERT_EQ(program.listen(channel, listening).error, 0);
  const std::uint32_t active = program.create_id(channel, kActiveUid, RDMA_PS_UDP);
  ASSERT_EQ(program.resolve(channel, active, "10.0.0.1", kPort).error, 0);
  program.expect_event(channel, kAddrResolved);
  ASSERT_EQ(program.resolve_route(channel, active).error, 0);
  program.expect_event(channel, kRouteResolved);
  ASSERT_EQ(program.connect(channel, active, 100, "where?").error, 0);
  const auto request = program.expect_event(channel, kConnectRequest);
  EXPECT_STREQ(reinterpret_cast<const char*>(request.param.ud.private_data), "where?");
  ASSERT_EQ(program.accept(channel, request.id, kPassiveUid, 200).error, 0);
  const auto found = program.expect_event(channel, kEstablished);
  EXPECT_EQ(found.uid, kActiveUid);
  EXPECT_EQ(found.param.ud.qp_num, 200U);
  EXPECT_EQ(found.param.ud.qkey, kUdpQkey);
  EXPECT_EQ(found.param.ud.ah_attr.is_global, 1);
}

TEST(Commands, OptionsAreChecked) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  rdma_ucm_set_option body{};
  body.id = program.create_id(channel, 1);
  const auto set = [&](std::uint32_t name, auto value) {
    body.optname = name;
    return program
        .command(channel, RDMA_USER_CM_CMD_SET_OPTION, body, std::as_bytes(std::span(&value, 1)))
        .error;
  };
  EXPECT_EQ(set(RDMA_OPTION_ID_REUSEADDR, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID_AFONLY, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID_TOS, std::uint8_t{8}), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{31}), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID_ACK_TIMEOUT, std::uint8_t{32}), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID_REUSEADDR, std::uint8_t{1}), EINVAL);
  EXPECT_EQ(set(99, std::uint8_t{1}), ENOSYS);
  body.level = RDMA_OPTION_IB;
  EXPECT_EQ(set(RDMA_OPTION_IB_PATH, 1), ENOSYS);
}

TEST(Commands, InvalidCommandsAreRefused) {
  Rig rig;
  CmProgram program(rig);
  const ProgramChannel channel = program.open_channel();
  EXPECT_EQ(program.command(channel, 99, 0).error, ENOSYS);
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_CONNECT, 0).error, EINVAL);
  EXPECT_EQ(program.command({.handle = 9, .pipe = {}}, RDMA_USER_CM_CMD_GET_EVENT, 0).error,
            EINVAL);
  EXPECT_FALSE(program.next_event(channel));
  rdma_ucm_create_id body{};
  body.ps = 1;
  EXPECT_EQ(program.command(channel, RDMA_USER_CM_CMD_CREATE_ID, body).error, EINVAL);
}

}  // namespace
}  // namespace uroce::control::cm_user
