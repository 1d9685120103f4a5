// Reading the error log.

#include <algorithm>
#include <string>

#include "abi/error_records.h"
#include "control/commands/command_table.h"
#include "control/commands/conversation.h"
#include "control/reports/error_log.h"

namespace uroce::control {

// JSON in as many pieces as needed.
Result<Outcome> report_errors(Conversation& conversation, Request& request, Reply* reply) {
  const auto body = request.as<abi::ErrorsRequest>();
  reply->set_text(
      errors_json(conversation.services().errors, body.after, conversation.session().peer().uid));
  return Outcome::kReply;
}

// One record of plain text, which the shim prints unchanged.
Result<Outcome> own_errors(Conversation& conversation, Request& request, Reply* reply) {
  const auto body = request.as<abi::ErrorsRequest>();
  abi::OwnErrorsReply answer{};
  const ErrorLog& log = conversation.services().errors;
  answer.last = log.last();
  const std::string text =
      errors_text(log, conversation.session().id(), body.after, sizeof(answer.text) - 1);
  std::copy(text.begin(), text.end(), answer.text);
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
