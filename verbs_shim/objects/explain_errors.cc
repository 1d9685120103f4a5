// With UROCE_DEBUG=1: prints the daemon's error log for failed completions.

#include <cstdio>

#include "abi/error_records.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/socket/cancellation_disabled.h"
#include "verbs_shim/socket/log.h"

namespace uroce::shim {

void explain_errors(Context& context) {
  const CancellationDisabled whole;  // extended polls hold their queue's lock
  abi::ErrorsRequest request{};
  request.after = context.errors_shown.load(std::memory_order_relaxed);
  abi::OwnErrorsReply reply{};
  if (context.client.call("UROCE_DEBUG", abi::Command::kOwnErrors, request, reply) != 0) {
    return;
  }
  context.errors_shown.store(reply.last, std::memory_order_relaxed);
  reply.text[sizeof(reply.text) - 1] = '\0';
  for (const char* line = reply.text; *line != '\0';) {
    const char* end = strchrnul(line, '\n');
    std::fprintf(stderr, "uroce: %.*s\n", static_cast<int>(end - line), line);
    line = *end == '\n' ? end + 1 : end;
  }
}

}  // namespace uroce::shim
