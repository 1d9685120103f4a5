#include "control/paging/paging_service.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

#include "base/check.h"
#include "base/monotonic_clock.h"
#include "base/system_error.h"
#include "mmu/remote_memory.h"

namespace uroce::control {
namespace {

// The daemon's end, which never blocks, and the program's.
Result<std::pair<UniqueFd, UniqueFd>> make_channel() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("the daemon can't make a paging channel");
  }
  std::pair<UniqueFd, UniqueFd> channel{ends[0], ends[1]};
  UROCE_CHECK(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  return Result<std::pair<UniqueFd, UniqueFd>>(std::move(channel));
}

}  // namespace

PagingService::PagingService(PagingQueues& queues, Quiescence& quiescence,
                             const PagingLimits& limits)
    : queues_(queues),
      quiescence_(quiescence),
      limits_(limits),
      invalidation_thread_(limits),
      fault_thread_(queues.faults, invalidation_thread_, limits),
      flush_thread_(queues.flushes) {}

void PagingService::start() {
  fault_thread_.start();
  invalidation_thread_.start(fault_thread_);
  flush_thread_.start();
}

// What one thread still asks of another that has stopped is never done.
PagingService::~PagingService() {
  fault_thread_.stop();
  invalidation_thread_.stop();
  flush_thread_.stop();
}

std::shared_ptr<Mirror> PagingService::make_mirror(const Peer& peer, std::uint64_t session) {
  // Without it, what can't be mapped can't be had; the fault says so.
  auto remote = open_remote_memory(peer.pid, peer.uid);
  auto mirror =
      std::make_shared<Mirror>(quiescence_, remote ? std::move(*remote) : UniqueFd{}, session);
  if (limits_.daemon != 0 || limits_.session != 0) {
    mirror->faults_only();
  }
  return mirror;
}

Result<PagingService::Channels> PagingService::open(const std::shared_ptr<Mirror>& mirror,
                                                    const Peer& peer) {
  auto share = make_channel();
  auto invalidate = make_channel();
  if (!share || !invalidate) {
    return share ? invalidate.error() : share.error();
  }
  fault_thread_.open(mirror, std::move(share->first), peer);
  invalidation_thread_.open(mirror, std::move(invalidate->first));
  return Result<Channels>(
      Channels{.share = std::move(share->second), .invalidate = std::move(invalidate->second)});
}

void PagingService::close(const std::shared_ptr<Mirror>& mirror) {
  mirror->close();
  fault_thread_.close(mirror);
  invalidation_thread_.close(mirror);
}

}  // namespace uroce::control
