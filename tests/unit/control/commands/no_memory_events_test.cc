// Events of librdmacm when memory runs out: one that is fetched can't be put back.

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <new>
#include <utility>
#include <variant>

#include "abi/cm_records.h"
#include "tests/unit/cm_user/cm_program.h"
#include "tests/unit/control/commands/no_memory.h"

namespace uroce::control {
namespace {

using cm_user::CmProgram;
using cm_user::EventNumber;
using cm_user::ProgramChannel;

class NoMemoryForEventsTest : public NoMemoryTest {
 protected:
  // A command to librdmacm's device, of a program; `failing`: as in until_failure. False: refused.
  // std::bad_alloc as it comes from the handler.
  template <typename Body>
  bool run(CmProgram& of, const ProgramChannel& channel, std::uint32_t number, const Body& body,
           int failing, Reply* reply) {
    abi::CmCommandRequest head{};
    head.channel = channel.handle;
    head.number = number;
    head.input_length = sizeof(body);
    Request request;
    request.bytes.resize(sizeof(head) + sizeof(body));
    std::memcpy(request.bytes.data(), &head, sizeof(head));
    std::memcpy(request.bytes.data() + sizeof(head), &body, sizeof(body));
    const auto& handler =
        std::get<ConversationHandler>(command_rule(abi::Command::kCmCommand)->handler);
    until_failure = failing;
    return handler(of.program.conversation, request, reply).has_value();
  }
};

TEST_F(NoMemoryForEventsTest, FetchingOneNeedsNone) {
  CmProgram fetching(rig);
  const ProgramChannel channel = fetching.open_channel();
  const std::uint32_t id = fetching.create_id(channel, 1);
  ASSERT_EQ(fetching.resolve(channel, id, "10.0.0.1", 7'000).error, 0);
  ASSERT_TRUE(channel.readable());
  Reply reply;
  EXPECT_TRUE(
      run(fetching, channel, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, kMany, &reply));
  EXPECT_EQ(std::exchange(until_failure, -1), kMany) << "nothing was allocated";
  const auto answer = Request{.bytes = reply.bytes, .descriptors = {}}.as<abi::CmCommandReply>();
  EXPECT_EQ(answer.event_id, id + 1);
  EXPECT_EQ(answer.output_length, sizeof(rdma_ucm_event_resp));
  EXPECT_EQ(fetching.destroy_id(channel, id).as<rdma_ucm_destroy_id_resp>().events_reported, 1U);
}

TEST_F(NoMemoryForEventsTest, AGroupWhoseEventFindsNoneIsLeft) {
  CmProgram joining(rig);
  const ProgramChannel channel = joining.open_channel();
  rdma_ucm_join_ip_mcast body{};
  body.id = joining.create_id(channel, 4, RDMA_PS_UDP, IBV_QPT_UD);
  body.addr = CmProgram::socket_address("239.1.2.3", 0);
  ASSERT_EQ(joining.bind(channel, body.id, "10.0.0.1", 0).error, 0);
  int failing = 0;
  for (bool joined = false; !joined; ++failing) {
    ASSERT_LT(failing, kAllocationsMax);
    Reply reply;
    try {
      joined = run(joining, channel, RDMA_USER_CM_CMD_JOIN_IP_MCAST, body, failing, &reply);
    } catch (const std::bad_alloc&) {
    }
    until_failure = -1;
    EXPECT_EQ(rig.card.devices()[0].groups().all().empty(), !joined) << failing;
  }
  EXPECT_GT(failing, 1) << "it needs some";
  joining.expect_event(channel, EventNumber::kMulticastJoin);
}

}  // namespace
}  // namespace uroce::control
