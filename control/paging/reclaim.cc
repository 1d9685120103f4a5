// The invalidation thread releases memory: when a limit is exceeded, and when the machine runs
// short.

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "control/paging/invalidation_thread.h"

namespace uroce::control {
namespace {

// This much more is released than necessary, so that the next fault doesn't trigger another round.
constexpr std::uint64_t kSlackShare = 8;
// The fraction of resident memory released at each event of memory pressure.
constexpr std::uint64_t kPressureShare = 8;
// Tasks stalled for 150 ms of 1 s because memory was short (Documentation/accounting/psi.rst).
constexpr std::string_view kPressureTrigger = "some 150000 1000000";

std::uint64_t excess(std::uint64_t resident, std::uint64_t limit) {
  return limit == 0 || resident <= limit ? 0 : resident - limit + limit / kSlackShare;
}

}  // namespace

// First the excess of single sessions, then the rest from all sessions in proportion.
void InvalidationThread::keep_limits() {
  std::uint64_t all = 0;
  for (const auto& [mirror, channel] : channels_) {
    mirror->evict(excess(mirror->resident_bytes(), limits_.session));
    all += mirror->resident_bytes();
  }
  const std::uint64_t wanted = excess(all, limits_.daemon);
  for (const auto& [mirror, channel] : channels_) {
    if (wanted != 0 && all != 0) {
      const auto part = static_cast<double>(mirror->resident_bytes()) / static_cast<double>(all);
      mirror->evict(static_cast<std::uint64_t>(part * static_cast<double>(wanted)));
    }
    mirror->tick();
  }
}

// Without kernel support for PSI only the limits apply.
void InvalidationThread::watch_pressure() {
  UniqueFd pressure(::open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!pressure.valid() ||
      ::write(pressure.get(), kPressureTrigger.data(), kPressureTrigger.size() + 1) < 0) {
    return;
  }
  if (poll_.add_pressure(pressure.get())) {
    pressure_ = std::move(pressure);
  }
}

void InvalidationThread::on_pressure() {
  std::uint64_t given = 0;
  for (const auto& [mirror, channel] : channels_) {
    given += mirror->evict(mirror->resident_bytes() / kPressureShare);
    mirror->tick();
  }
  if (given != 0) {
    spdlog::debug("memory is short: {} KiB of on-demand memory given back", given / 1024);
  }
}

}  // namespace uroce::control
