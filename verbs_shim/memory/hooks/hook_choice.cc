#include "verbs_shim/memory/hooks/hook_choice.h"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>
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

// Whether the program is statically linked and has loaded us by dlopen. It then calls a libc other
// than ours, and ours can't create threads: the allocator that pthread_create uses is set up by the
// dynamic linker at program start. A program started through the linker's command has its own
// program headers here, too.
bool is_statically_linked() {
  const auto* const first = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  const std::span headers(first, first == nullptr ? 0 : ::getauxval(AT_PHNUM));
  return std::ranges::none_of(headers,
                              [](const ElfW(Phdr) & header) { return header.p_type == PT_INTERP; });
}

// The reason why libc's functions can't be hooked; nullptr if they can.
const char* why_not() {
  if (!read_choice()) {
    return "UROCE_HOOKS=none leaves libc's functions alone, without which private memory isn't "
           "shared, nor any paged on demand";
  }
  return is_statically_linked()
             ? "the libc of a statically linked program can't be hooked, without which private "
               "memory isn't shared, nor any paged on demand"
             : nullptr;
}

}  // namespace

Status hooks_allowed() {
  static const char* const reason = why_not();
  return reason == nullptr ? ok() : Status(Error{EOPNOTSUPP, reason});
}

}  // namespace uroce::shim
