#include "verbs_shim/memory/hooks/hook_choice.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace uroce::shim {
namespace {

constexpr const char* kVariable = "UROCE_HOOKS";

bool read_choice() {
  const char* const chosen = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): read once
  const std::string_view choice = chosen == nullptr ? "" : chosen;
  if (choice == "none") {
    return false;
  }
  if (!choice.empty() && choice != "patch") {
    std::fprintf(stderr,
                 "uroce: %s is \"%s\", but only \"patch\" and \"none\" are known: "
                 "\"patch\" is taken\n",
                 kVariable, chosen);
  }
  return true;
}

}  // namespace

Status hooks_allowed() {
  static const bool allowed = read_choice();
  return allowed ? ok()
                 : Status(Error{EOPNOTSUPP,
                                "UROCE_HOOKS=none leaves libc's functions alone, without which "
                                "private memory isn't shared, nor any paged on demand"});
}

}  // namespace uroce::shim
