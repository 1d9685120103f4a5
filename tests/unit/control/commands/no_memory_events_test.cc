// Events of librdmacm when memory runs out: one that is fetched can't be put back.

#include <rdma/rdma_user_cm.h>

#include <cstring>
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
using test::fails_for_good;

TEST_F(NoMemoryTest, FetchingAnEventNeedsNone) {
  CmProgram fetching(rig);
  const ProgramChannel channel = fetching.open_channel();
  const std::uint32_t id = fetching.create_id(channel, 1);
  ASSERT_EQ(fetching.resolve(channel, id, "10.0.0.1", 7'000).error, 0);
  ASSERT_TRUE(channel.readable());

  const rdma_ucm_get_event body{};
  abi::CmCommandRequest head{};
  head.channel = channel.handle;
  head.number = RDMA_USER_CM_CMD_GET_EVENT;
  head.input_length = sizeof(body);
  Request request;
  request.bytes.resize(sizeof(head) + sizeof(body));
  std::memcpy(request.bytes.data(), &head, sizeof(head));
  std::memcpy(request.bytes.data() + sizeof(head), &body, sizeof(body));
  Reply reply;
  const auto& handler =
      std::get<ConversationHandler>(command_rule(abi::Command::kCmCommand)->handler);
  until_failure = 0;
  fails_for_good = true;
  const bool well = handler(fetching.program.conversation, request, &reply).has_value();
  fails_for_good = false;
  EXPECT_EQ(std::exchange(until_failure, -1), 0) << "nothing was allocated";
  ASSERT_TRUE(well);
  const auto answer = Request{.bytes = reply.bytes, .descriptors = {}}.as<abi::CmCommandReply>();
  EXPECT_EQ(answer.event_id, id + 1);
  EXPECT_EQ(answer.output_length, sizeof(rdma_ucm_event_resp));
  EXPECT_EQ(fetching.destroy_id(channel, id).as<rdma_ucm_destroy_id_resp>().events_reported, 1U);
}

}  // namespace
}  // namespace uroce::control
