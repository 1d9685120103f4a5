// Commands of a program's librdmacm (cm_records.h). They are implemented in cm_user/.

#include <rdma/rdma_user_cm.h>

#include "abi/cm_records.h"
#include "base/memory/memory_reserve.h"
#include "control/cm_user/ucm_commands.h"
#include "control/commands/command_table.h"
#include "control/commands/conversation.h"

namespace uroce::control {

Result<Outcome> cm_open_channel(Conversation& conversation, Request& /*request*/, Reply* reply) {
  auto opened = conversation.cm_user().open_channel();
  if (!opened) {
    return opened.error();
  }
  reply->set_handle(opened->handle);
  reply->descriptors.push_back(std::move(opened->read_end));
  return Outcome::kReply;
}

Result<Outcome> cm_close_channel(Conversation& conversation, Request& request, Reply* /*reply*/) {
  Status status = conversation.cm_user().close_channel(request.as<abi::HandleRequest>().handle);
  return status ? Result<Outcome>(Outcome::kReply) : status.error();
}

Result<Outcome> cm_command(Conversation& conversation, Request& request, Reply* reply) {
  const auto head = request.as<abi::CmCommandRequest>();
  const auto bytes = std::span<const std::byte>(request.bytes).subspan(sizeof(head));
  if (head.input_length > abi::kCmInputMax || head.option_length > abi::kCmOptionMax ||
      bytes.size() != std::size_t{head.input_length} + head.option_length) {
    return Error{EBADMSG, "the record's parts don't fit its length"};
  }
  if (!cm_user::gives_back(head.number) && !hold_memory_reserve()) {
    return out_of_memory();
  }
  cm_user::User& user = conversation.cm_user();
  const auto channel = user.channel(head.channel);
  if (!channel) {
    return channel.error();
  }
  cm_user::EventChannel* other = nullptr;  // in any other command the number means nothing
  if (head.number == RDMA_USER_CM_CMD_MIGRATE_ID) {
    const auto found = user.channel(head.other_channel);
    other = found ? *found : nullptr;
  }
  cm_user::Call call{.channel = **channel,
                     .other = other,
                     .input = bytes.first(head.input_length),
                     .option = bytes.subspan(head.input_length)};
  if (Status status = cm_user::run_command(user, head.number, call); !status) {
    return status.error();
  }
  abi::CmCommandReply answer{};
  answer.output_length = call.output_length;
  std::memcpy(answer.output, call.output.data(), call.output_length);
  answer.event_id = call.event_id;
  answer.event_membership = call.event_membership;
  answer.leaving = (*channel)->settle();
  if (other != nullptr && other != *channel) {
    answer.leaving_other = other->settle();
  }
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
