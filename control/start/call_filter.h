#pragma once

// Which system calls the daemon's threads may make once it is started (seccomp; the lists:
// system_calls.def). Whoever finds a mistake in what reads foreign bytes then has no execve, ptrace
// or mount to use it with, and on a worker, which reads the network, no open or socket either.
//
// A call that isn't listed isn't made, and a line on standard error names it and its thread, once a
// call. It then fails with EPERM and the daemon goes on: that a list lacks what some driver does
// once a year mustn't end what everybody uses, and who is led by an attacker gains nothing by it.
// What no daemon ever does (kNever) ends it at once.

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
