#include "verbs_shim/memory/sharing/sharing_state.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "verbs_shim/memory/sharing/fork_copies.h"

namespace uroce::shim {
namespace {

constexpr const char* kVariable = "UROCE_MEMORY";

}  // namespace

SharingState& sharing_state() {
  // Not on the heap, so that making it can't fail.
  alignas(SharingState) static std::byte room[sizeof(SharingState)];
  static SharingState& state = *new (room) SharingState;
  static const bool once = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read once
    const char* const chosen = std::getenv(kVariable);
    const std::string_view choice = chosen == nullptr ? "" : chosen;
    if (!choice.empty() && choice != "share" && choice != "copy") {
      std::fprintf(stderr,
                   "uroce: %s is \"%s\", but only \"share\" and \"copy\" are known: \"share\" "
                   "is taken\n",
                   kVariable, chosen);
    }
    state.share = choice != "copy";
    install_fork_handlers(state);
    return true;
  }();
  (void)once;
  return state;
}

}  // namespace uroce::shim
