#include "verbs_shim/memory/sharing/memory_limit.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>

#include "base/capabilities.h"
#include "base/page.h"

namespace uroce::shim {
namespace {

// Bytes in whole pages held by registrations. Relaxed: a counter, needs no ordering.
std::atomic<std::uint64_t> locked_bytes{0};

bool may_lock_anything() { return (effective_capabilities() & capability_bit(CAP_IPC_LOCK)) != 0; }

}  // namespace

DoneOrRefusal charge_locked_memory(std::uint64_t address, std::uint64_t length) {
  const std::uint64_t wanted = bytes_of_pages(address, length);
  const std::uint64_t before = locked_bytes.fetch_add(wanted, std::memory_order_relaxed);
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      before + wanted <= limit.rlim_cur || may_lock_anything()) {
    return Done{};
  }
  locked_bytes.fetch_sub(wanted, std::memory_order_relaxed);
  return Refusal{ENOMEM, Sentence::composed(
                             "RLIMIT_MEMLOCK allows %" PRIu64 " KiB of registered memory, %" PRIu64
                             " KiB are registered and %" PRIu64
                             " KiB more were asked for: raise it (ulimit -l, in KiB)",
                             std::uint64_t{limit.rlim_cur} / 1024, before / 1024, wanted / 1024)};
}

void uncharge_locked_memory(std::uint64_t address, std::uint64_t length) {
  locked_bytes.fetch_sub(bytes_of_pages(address, length), std::memory_order_relaxed);
}

void forget_locked_memory() { locked_bytes.store(0, std::memory_order_relaxed); }

}  // namespace uroce::shim
