#include "dataplane/port/ethdev/packet_fanout.h"

#include <linux/if_packet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "base/check.h"
#include "dataplane/port/steering_bpf.h"

namespace uroce {
namespace {

// Of the existing FanoutByOwner; 0: none.
thread_local std::uint16_t fanout_workers = 0;

bool set_option(int descriptor, int level, int option, const void* value, socklen_t length) {
  return ::syscall(SYS_setsockopt, descriptor, level, option, value, length) == 0;
}

// `wanted`: the group's number, and above it the mode and its flags. The flags are kept, except the
// one that passes a full socket's frames to another socket, whose worker would forward them after
// later ones.
bool join_by_owner(int descriptor, std::uint32_t wanted) {
  constexpr std::uint32_t kKind = 0xFF, kRollover = PACKET_FANOUT_FLAG_ROLLOVER;
  const std::uint32_t group =
      (wanted & ~((kKind | kRollover) << 16U)) | std::uint32_t{PACKET_FANOUT_CBPF} << 16U;
  if (!set_option(descriptor, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group))) {
    return false;
  }
  std::vector<sock_filter> program = packet_steering_bpf(fanout_workers);
  const sock_fprog filter = as_filter(program);
  // If refused, the first socket gets all frames, and its worker forwards them.
  set_option(descriptor, SOL_PACKET, PACKET_FANOUT_DATA, &filter, sizeof(filter));
  return true;
}

}  // namespace

FanoutByOwner::FanoutByOwner(std::uint16_t workers) {
  UROCE_CHECK(fanout_workers == 0 && workers > 0);
  fanout_workers = workers;
}

FanoutByOwner::~FanoutByOwner() { fanout_workers = 0; }

}  // namespace uroce

// Interposes libc's function for the whole process: the executable's symbols come first in the
// lookup order.
extern "C" int setsockopt(int descriptor, int level, int option, const void* value,
                          socklen_t length) noexcept {
  std::uint32_t group = 0;
  if (level == SOL_PACKET && option == PACKET_FANOUT && length == sizeof(group) &&
      uroce::fanout_workers > 0) {
    std::memcpy(&group, value, sizeof(group));
    if (uroce::join_by_owner(descriptor, group)) {
      return 0;
    }
  }
  return uroce::set_option(descriptor, level, option, value, length) ? 0 : -1;
}
