#include "control/start/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/system_error.h"
#include "control/start/every_thread.h"
#include "dataplane/port/ethdev/port_rights.h"
#include "dataplane/port/make_port.h"

namespace uroce::control {
namespace {

// To reopen an interface that is back, with rings in locked memory; promiscuous mode, addresses,
// neighbours.
constexpr Capabilities kInterfaces =
    capability_bit(CAP_NET_RAW) | capability_bit(CAP_NET_ADMIN) | capability_bit(CAP_IPC_LOCK);
// For /proc/PID/mem and map_files of other users, their limits, and the target files of the latter.
constexpr Capabilities kOtherUsers =
    capability_bit(CAP_SYS_PTRACE) | capability_bit(CAP_DAC_OVERRIDE) |
    capability_bit(CAP_CHECKPOINT_RESTORE) | capability_bit(CAP_SYS_RESOURCE);
constexpr unsigned kOthersConnect = 0077;

// Those that this process would pass on to any program, and its login has given to all of the
// user's programs: the kernel keeps their memory from who hasn't got them.
Capabilities of_every_program() {
  Capabilities all = 0;
  for (int each = 0; each <= CAP_LAST_CAP; ++each) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, each, 0, 0) == 1) {
      all |= capability_bit(each);
    }
  }
  return all & kCapabilitiesOfNoReach;
}

// Read by each thread that drops the rest.
std::atomic<Capabilities> kept_by_all{0};
std::atomic<int> giving_up_failed{0};

void give_up_here() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2]{};
  const Capabilities kept = kept_by_all.load(std::memory_order_acquire);
  bool done = ::syscall(SYS_capget, &header, sets) == 0;
  for (unsigned half = 0; half < 2; ++half) {
    const auto mask = static_cast<std::uint32_t>(kept >> (32 * half));
    sets[half].permitted &= mask;
    sets[half].effective &= mask;
    sets[half].inheritable = 0;
  }
  done = done && ::syscall(SYS_capset, &header, sets) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (!done) {
    giving_up_failed.store(errno, std::memory_order_release);
  }
}

}  // namespace

Capabilities needed_capabilities(const DaemonOptions& options) {
  Capabilities needed = of_every_program();
  needed |= (options.socket_mode & kOthersConnect) != 0 ? kOtherUsers : 0;
  for (const DaemonPort& port : options.ports) {
    if (needs_eal(port.spec) || !port.interface.empty()) {
      needed |= kInterfaces;
    }
    needed |= capabilities_to_open(port.spec);
  }
  return needed;
}

Status keep_only(Capabilities kept) {
  kept_by_all.store(kept, std::memory_order_release);
  giving_up_failed.store(0, std::memory_order_release);
  if (Status reached = on_every_thread(give_up_here); !reached) {
    return reached;
  }
  errno = giving_up_failed.load(std::memory_order_acquire);
  return errno == 0 ? ok() : Status(system_error("can't give up capabilities"));
}

}  // namespace uroce::control
