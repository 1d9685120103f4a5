// Connections by the kind of their queue pairs.

#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

constexpr Kind of_ib(ibv_qp_type type) { return {RDMA_PS_IB, static_cast<std::uint8_t>(type)}; }

class Kinds : public TwoPrograms {};

TEST_F(Kinds, OthersThanTheListenersDoNotReachTheProgram) {
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

TEST_F(Kinds, OfTheSameReachEachOther) {
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

}  // namespace
}  // namespace uroce::control::cm_user
