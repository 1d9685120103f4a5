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

bool names_interpreter(const ElfW(Phdr) & header) { return header.p_type == PT_INTERP; }

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

// The reason why libc's functions can't be hooked; nullptr if they can.
const char* why_not() {
  if (!read_choice()) {
    return "UROCE_HOOKS=none leaves libc's functions alone, without which private memory isn't "
           "shared, nor any paged on demand";
  }
  const auto* const first = reinterpret_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  return is_statically_linked({first, first == nullptr ? 0 : ::getauxval(AT_PHNUM)})
             ? "the libc of a statically linked program can't be hooked, without which private "
               "memory isn't shared, nor any paged on demand"
             : nullptr;
}

}  // namespace

// Its own calls are to another libc than ours, and ours can't create threads there: the allocator
// that pthread_create uses is set up by the dynamic linker when it starts a program. If started by
// that linker's command, a program has its own headers here, too.
bool is_statically_linked(std::span<const ElfW(Phdr)> headers) {
  if (!headers.empty()) {
    return std::ranges::none_of(headers, names_interpreter);
  }
  // What runs the program passes no AT_PHDR. The dynamic linker has the program first in its list.
  bool found = false;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t /*size*/, void* result) {
        const std::span its(program->dlpi_phdr, program->dlpi_phnum);
        *static_cast<bool*>(result) = std::ranges::any_of(its, names_interpreter);
        return 1;  // no more
      },
      &found);
  return !found;
}

DoneOrRefusal hooks_allowed() {
  static const char* const reason = why_not();
  return reason == nullptr ? DoneOrRefusal(Done{}) : Refusal{EOPNOTSUPP, reason};
}

}  // namespace uroce::shim
