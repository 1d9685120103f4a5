#pragma once

// The seccomp filter of the daemon's threads after start-up (lists: system_calls.def). An attacker
// who exploits a bug in parsing untrusted bytes can't call execve, ptrace or mount, nor, in a
// worker, which reads the network, open or socket.
//
// A call that isn't listed fails with EPERM; a line on standard error names it and its thread, once
// per call. The daemon continues: a list that misses a driver's rare call mustn't end the service
// for everybody, and an attacker gains nothing by it. Calls that no daemon ever makes (kNever) end
// it at once.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/sanitized.h"

namespace uroce::control {

enum class CallFilter : std::uint8_t {
  kOff,
  kLog,  // allows all calls; the kernel logs those that aren't listed
  kOn,
  kKill,  // the first call that isn't listed ends the daemon: for tests
};

// Sanitizers' run-times make calls of their own.
inline constexpr CallFilter kCallFilterDefault = kSanitized ? CallFilter::kOff : CallFilter::kOn;

enum class CallList : std::uint8_t {
  kWorker,
  kService,             // without DPDK
  kServiceWithDrivers,  // with it
};

// Filters all existing threads and those they start. REQUIRES: no thread has a different filter.
// ENOSYS or similar if the kernel lacks seccomp.
Status filter_all_threads(CallFilter mode, CallList list);
// Filters the calling thread additionally.
Status filter_this_thread(CallFilter mode, CallList list);

}  // namespace uroce::control
