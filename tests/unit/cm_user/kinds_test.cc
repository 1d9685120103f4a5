// Connections by the types of their queue pairs.

#include <rdma/ib_user_verbs.h>

#include "control/sessions/qp_states.h"
#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

constexpr Kind of_ib(ibv_qp_type type) { return {RDMA_PS_IB, static_cast<std::uint8_t>(type)}; }

class Kinds : public TwoPrograms {};

TEST_F(Kinds, RequestsOfAnotherKindDoNotReachTheListener) {
  constexpr std::pair<ibv_qp_type, ibv_qp_type> kPairs[] = {
      {IBV_QPT_RC, IBV_QPT_UD}, {IBV_QPT_RC, IBV_QPT_UC}, {IBV_QPT_UC, IBV_QPT_RC},
      {IBV_QPT_UD, IBV_QPT_RC}, {IBV_QPT_UC, IBV_QPT_UD}, {IBV_QPT_RC, IBV_QPT_XRC_SEND}};
  for (const auto& [listens, asks] : kPairs) {
    SCOPED_TRACE(testing::Message() << asks << " asks " << listens);
    listen(of_ib(listens));
    ask(of_ib(asks));
    EXPECT_FALSE(server_channel.readable());
    if (asks == IBV_QPT_UD) {
      EXPECT_EQ(client.expect_event(client_channel, kUnreachable).status, 2U);  // rejected
    } else {
      EXPECT_EQ(client.expect_event(client_channel, kRejected).status, 28U);  // consumer defined
    }
    EXPECT_EQ(client.destroy_id(client_channel, active).error, 0);
    EXPECT_EQ(server.destroy_id(server_channel, listening).error, 0);
  }
}

TEST_F(Kinds, RequestsOfTheSameKindAreAccepted) {
  constexpr std::pair<ibv_qp_type, ibv_qp_type> kPairs[] = {{IBV_QPT_RC, IBV_QPT_RC},
                                                            {IBV_QPT_UC, IBV_QPT_UC},
                                                            {IBV_QPT_UD, IBV_QPT_UD},
                                                            {IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND}};
  for (const auto& [listens, asks] : kPairs) {
    SCOPED_TRACE(testing::Message() << asks << " asks " << listens);
    listen(of_ib(listens));
    ask(of_ib(asks));
    accept();
    client.expect_event(client_channel, asks == IBV_QPT_UD ? kEstablished : kConnectResponse);
    EXPECT_EQ(server.destroy_id(server_channel, passive).error, 0);
    EXPECT_EQ(client.destroy_id(client_channel, active).error, 0);
    EXPECT_EQ(server.destroy_id(server_channel, listening).error, 0);
  }
}

TEST_F(Kinds, AttributesAreValidForTheirQueuePairs) {
  struct Step {
    QpState from, to;
  };
  constexpr Step kSteps[] = {{QpState::kReset, QpState::kInit},
                             {QpState::kInit, QpState::kRtr},
                             {QpState::kRtr, QpState::kRts}};
  struct Type {
    ibv_qp_type listens, asks;
    QpType passive, active;
  };
  constexpr Type kTypes[] = {
      {IBV_QPT_RC, IBV_QPT_RC, QpType::kRc, QpType::kRc},
      {IBV_QPT_UC, IBV_QPT_UC, QpType::kUc, QpType::kUc},
      {IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, QpType::kXrcRecv, QpType::kXrcSend}};
  const auto mask_of = [](CmProgram& program, const ProgramChannel& channel, std::uint32_t id,
                          QpState to) {
    rdma_ucm_init_qp_attr body{};
    body.id = id;
    body.qp_state = static_cast<std::uint32_t>(to);
    return program.command(channel, RDMA_USER_CM_CMD_INIT_QP_ATTR, body)
        .as<ib_uverbs_qp_attr>()
        .qp_attr_mask;
  };
  for (const Type& type : kTypes) {
    SCOPED_TRACE(name_of(type.passive));
    listen(of_ib(type.listens));
    ask(of_ib(type.asks));
    accept();
    client.expect_event(client_channel, kConnectResponse);
    for (const auto& [from, to] : kSteps) {
      const Status active_side =
          check_transition(type.active, from, to, mask_of(client, client_channel, active, to));
      EXPECT_TRUE(active_side) << active_side.error().message;
      const Status passive_side =
          check_transition(type.passive, from, to, mask_of(server, server_channel, passive, to));
      EXPECT_TRUE(passive_side) << passive_side.error().message;
    }
    EXPECT_EQ(server.destroy_id(server_channel, passive).error, 0);
    EXPECT_EQ(client.destroy_id(client_channel, active).error, 0);
    EXPECT_EQ(server.destroy_id(server_channel, listening).error, 0);
  }
}

}  // namespace
}  // namespace uroce::control::cm_user
