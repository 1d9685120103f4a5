#include "apps/uroce/limits.h"

#include <pwd.h>

#include <cstdio>
#include <string>

#include "apps/uroce/daemon_answer.h"
#include "base/sockets/socket_path.h"
#include "control/reports/status_client.h"

namespace uroce {
namespace {

// "alice (1000)"
std::string user_text(const Json& user) {
  const uid_t uid = user.value("uid", uid_t{0});
  const passwd* const entry = ::getpwuid(uid);  // NOLINT(concurrency-mt-unsafe): one thread
  std::string text =
      entry != nullptr ? entry->pw_name + (" (" + std::to_string(uid) + ")") : std::to_string(uid);
  if (const auto space = user.value("user_namespace", std::uint64_t{0}); space != 0) {
    text += " of user namespace " + std::to_string(space);
  }
  return text;
}

void print_user(const Json& user) {
  std::printf("user %s\n  %-16s %16s %16s %16s\n", user_text(user).c_str(), "limit", "in use",
              "allowed", "maximum");
  for (const Json& limit : user["limits"]) {
    std::printf("  %-16s %16s %16s %16s\n", text_of(limit["name"]).c_str(),
                text_of(limit["used"]).c_str(), text_of(limit["allowed"]).c_str(),
                text_of(limit["maximum"]).c_str());
  }
}

}  // namespace

int show_limits(bool json) {
  const auto answer = answer_of(
      "uroce limits", control::fetch_status(program_socket(), abi::Command::kLimits), {"users"});
  if (!answer) {
    return 1;
  }
  if (json) {
    std::printf("%s\n", answer->dump(2).c_str());
    return 0;
  }
  for (const Json& user : (*answer)["users"]) {
    print_user(user);
  }
  return 0;
}

}  // namespace uroce
