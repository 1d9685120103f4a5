#include "verbs_shim/memory/sharing/sharing_state.h"

#include <cstdlib>
#include <string_view>

#include "verbs_shim/memory/sharing/fork_copies.h"

namespace uroce::shim {

SharingState& sharing_state() {
  static SharingState& state = *new SharingState;
  static const bool once = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read once
    const char* const chosen = std::getenv("UROCE_MEMORY");
    state.share = chosen == nullptr || std::string_view(chosen) != "copy";
    keep_forks_apart(state);
    return true;
  }();
  static_cast<void>(once);
  return state;
}

}  // namespace uroce::shim
