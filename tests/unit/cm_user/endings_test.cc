// The end of connections, as programs see it.

#include <cerrno>

#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

class Endings : public TwoPrograms {
 protected:
  void establish() {
    listen(kStream);
    ask(kStream);
    accept();
    client.expect_event(client_channel, kConnectResponse);
    ASSERT_EQ(client.establish(client_channel, active).error, 0);
    established = server.expect_event(server_channel, kEstablished);
  }
  int disconnect_active() { return client.disconnect(client_channel, active).error; }
  int disconnect_passive() { return server.disconnect(server_channel, passive).error; }

  rdma_ucm_event_resp established{};
};

TEST_F(Endings, CarryNoPrivateData) {
  establish();
  EXPECT_EQ(established.param.conn.private_data_len, 0);
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(server.expect_event(server_channel, kDisconnected).param.conn.private_data_len, 0);
  EXPECT_EQ(disconnect_passive(), 0);
  EXPECT_EQ(client.expect_event(client_channel, kDisconnected).param.conn.private_data_len, 0);
}

TEST_F(Endings, AreNoErrorASecondTime) {
  establish();
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(disconnect_active(), 0) << "the DREQ isn't answered";
  server.expect_event(server_channel, kDisconnected);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(disconnect_passive(), 0);
  client.expect_event(client_channel, kDisconnected);
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(disconnect_passive(), 0);
  pass_time();
  EXPECT_EQ(disconnect_active(), 0) << "after TIMEWAIT";
  EXPECT_EQ(disconnect_passive(), 0);
}

TEST_F(Endings, AreNoErrorAfterARefusal) {
  listen(kStream);
  ask(kStream);
  rdma_ucm_reject body{};
  body.id = passive = server.expect_event(server_channel, kConnectRequest).id;
  ASSERT_EQ(server.command(server_channel, RDMA_USER_CM_CMD_REJECT, body).error, 0);
  client.expect_event(client_channel, kRejected);
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(disconnect_passive(), 0);
}

TEST_F(Endings, AreNoErrorOfDatagrams) {
  listen(kDatagram);
  ask(kDatagram);
  EXPECT_EQ(disconnect_active(), 0) << "there is no answer yet";
  accept();
  client.expect_event(client_channel, kEstablished);
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(disconnect_passive(), 0);
  EXPECT_FALSE(client_channel.readable());
  EXPECT_FALSE(server_channel.readable());
}

// The program waits for an event that says how its attempt ends.
TEST_F(Endings, LeaveAnAttemptToConnectAsItIs) {
  listen(kStream);
  ask(kStream);
  EXPECT_EQ(disconnect_active(), 0) << "the REQ isn't answered";
  passive = server.expect_event(server_channel, kConnectRequest).id;
  EXPECT_EQ(disconnect_passive(), 0) << "it isn't accepted";
  EXPECT_FALSE(client_channel.readable());
  ASSERT_EQ(server.accept(server_channel, passive, kServerUid, next_qpn++).error, 0);
  client.expect_event(client_channel, kConnectResponse);
  EXPECT_EQ(disconnect_active(), 0) << "the RTU isn't sent";
  ASSERT_EQ(client.establish(client_channel, active).error, 0);
  server.expect_event(server_channel, kEstablished);
  EXPECT_EQ(disconnect_active(), 0);
  server.expect_event(server_channel, kDisconnected);
}

TEST_F(Endings, LeaveTheRefusalOfAnAttemptToItsEvent) {
  listen(kStream);
  ask(kStream);
  EXPECT_EQ(disconnect_active(), 0);
  EXPECT_EQ(server.destroy_id(server_channel, listening).error, 0);
  client.expect_event(client_channel, kRejected);
}

TEST_F(Endings, OfAnAcceptedConnectionNeedNoReadyPeer) {
  listen(kStream);
  ask(kStream);
  accept();
  EXPECT_EQ(disconnect_passive(), 0);
  client.expect_event(client_channel, kConnectResponse);
  client.expect_event(client_channel, kDisconnected);
}

TEST_F(Endings, NeedAConnection) {
  listen(kStream);
  EXPECT_EQ(server.disconnect(server_channel, listening).error, EINVAL);
}

}  // namespace
}  // namespace uroce::control::cm_user
