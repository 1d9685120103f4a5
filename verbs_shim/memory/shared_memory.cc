#include "verbs_shim/memory/shared_memory.h"

#include <sys/prctl.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string_view>

#include "dataplane/base/check.h"
#include "verbs_shim/memory/describer.h"
#include "verbs_shim/memory/fork.h"
#include "verbs_shim/memory/memory_limit.h"

namespace uroce::shim {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint32_t kOnDemand = 1U << 6U;  // IBV_ACCESS_ON_DEMAND
constexpr const char* kMemoryVariable = "UROCE_MEMORY";

}  // namespace

SharingState& sharing_state() {
  static SharingState& state = *new SharingState;
  static const bool once = [] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read once, under the mutex
    const char* const chosen = std::getenv(kMemoryVariable);
    state.share = chosen == nullptr || std::string_view(chosen) != "copy";
    keep_forks_apart(state);
    return true;
  }();
  static_cast<void>(once);
  return state;
}

Result<MemoryDescription> describe_memory(std::uint64_t address, std::uint64_t length,
                                          std::uint32_t access) {
  if (length == 0 || address + length < address || address + length + kPage - 1 < address) {
    return Error{EINVAL, "the range is empty or wraps around the end of the address space"};
  }
  const bool charged = (access & kOnDemand) == 0;
  if (charged) {
    if (Status charge = charge_locked_memory(address, length); !charge) {
      return charge.error();
    }
  }
  SharingState& state = sharing_state();
  const std::lock_guard lock(state.mutex);
  auto description = Describer(state, address, length, access).run();
  if (description && charged) {
    state.pinned_regions.fetch_add(1, std::memory_order_relaxed);
  } else if (charged) {
    uncharge_locked_memory(address, length);
  }
  return description;
}

void release_memory(std::uint64_t address, std::uint64_t length, std::uint32_t access) {
  if ((access & kOnDemand) == 0) {
    sharing_state().pinned_regions.fetch_sub(1, std::memory_order_relaxed);
    uncharge_locked_memory(address, length);
  }
}

Arena arena(std::uint32_t index) {
  SharingState& state = sharing_state();
  const std::lock_guard lock(state.mutex);
  UROCE_CHECK(index < state.arenas.size());
  return {.descriptor = state.arenas[index].descriptor(),
          .page_size = state.arenas[index].page_size()};
}

void allow_daemon(int daemon_pid) {
  // Refused where there is no Yama, which is as good.
  static_cast<void>(::prctl(PR_SET_PTRACER, static_cast<unsigned long>(daemon_pid), 0UL, 0UL, 0UL));
}

}  // namespace uroce::shim
