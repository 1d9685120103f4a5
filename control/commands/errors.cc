// Reading the log of errors.

#include <algorithm>
#include <span>

#include "abi/error_records.h"
#include "control/commands/command_table.h"
#include "control/reports/error_log.h"

namespace uroce::control {

// JSON in as many pieces as it takes.
Result<Outcome> report_errors(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ErrorsRequest>();
  const std::string text = errors_json(session.card().errors, body.after, session.peer().uid);
  const auto bytes = std::as_bytes(std::span(text));
  reply->bytes.insert(reply->bytes.end(), bytes.begin(), bytes.end());
  return Outcome::kReply;
}

// One record of plain text: the shim prints it as it is.
Result<Outcome> own_errors(Session& session, Request& request, Reply* reply) {
  const auto body = request.as<abi::ErrorsRequest>();
  abi::OwnErrorsReply answer{};
  const ErrorLog& log = session.card().errors;
  answer.last = log.last();
  const std::string text = errors_text(log, session.id(), body.after, sizeof(answer.text) - 1);
  std::copy(text.begin(), text.end(), answer.text);
  reply->set(answer);
  return Outcome::kReply;
}

}  // namespace uroce::control
