#pragma once

// The seccomp filter of the daemon's threads once it is started (the lists: system_calls.def). An
// attacker who exploits a bug in the parsing of untrusted bytes then has no execve, ptrace or
// mount, and on a worker, which reads the network, no open or socket either.
//
// A call that isn't listed isn't made; a line on standard error names it and its thread, once per
// call. It then fails with EPERM and the daemon continues: a list that lacks what some driver does
// once a year mustn't end the service for everybody, and an attacker gains nothing by it. Calls
// that no daemon ever makes (kNever) end it at once.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/sanitized.h"

namespace uroce::control {

enum class CallFilter : std::uint8_t {
  kOff,
  kLog,  // all calls are made; the kernel's log names those that aren't listed
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

// For all threads that there are and those they start. REQUIRES: no thread has another one.
// ENOSYS and the like where the kernel has no seccomp.
Status filter_all_threads(CallFilter mode, CallList list);
// For the calling thread besides.
Status filter_this_thread(CallFilter mode, CallList list);

}  // namespace uroce::control
