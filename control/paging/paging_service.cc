#include "control/paging/paging_service.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/system_error.h"
#include "base/time/monotonic_clock.h"
#include "mmu/proc_mem/proc_mem.h"
#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce::control {
namespace {

// The daemon's end, which never blocks, and the program's.
Result<std::pair<UniqueFd, UniqueFd>> make_channel() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_error("the daemon can't make a paging channel");
  }
  std::pair<UniqueFd, UniqueFd> channel{ends[0], ends[1]};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return system_error("the daemon can't make a paging channel");
  }
  return Result<std::pair<UniqueFd, UniqueFd>>(std::move(channel));
}

// The program's memory as its copying thread has it open, which may outlive everything else.
struct ChargedFile {
  UniqueFd file;
  Charge charge;
};

// Without the helper thread, workers would access unmapped memory themselves and block, so a
// program for which there is none does without /proc/PID/mem.
Status start_copying(Mirror& mirror) {
  auto of_mirror = mirror.account()->charge(Limit::kDescriptors);
  auto of_thread = mirror.account()->charge(Limit::kDescriptors);
  if (!of_mirror || !of_thread) {
    return of_mirror ? of_thread.error() : of_mirror.error();
  }
  auto file = std::make_shared<const ChargedFile>(
      ChargedFile{UniqueFd(::fcntl(mirror.remote(), F_DUPFD_CLOEXEC, 0)), std::move(*of_thread)});
  if (!file->file.valid()) {
    return system_error("no descriptor is left");
  }
  auto program = ProcMemThread::start({file, &file->file}, mirror.user());
  if (!program) {
    return program.error();
  }
  mirror.set_program(std::move(*program), std::move(*of_mirror));
  return ok();
}

}  // namespace

PagingService::PagingService(PagingQueues& queues, Quiescence& quiescence,
                             const PagingLimits& limits)
    : queues_(queues),
      quiescence_(quiescence),
      limits_(limits),
      invalidation_thread_(limits),
      fault_thread_(queues.faults, invalidation_thread_, limits, helpers_),
      flush_thread_(queues.flushes) {}

Status PagingService::start() {
  if (!control_event_->valid() || !fault_thread_.usable() || !invalidation_thread_.usable() ||
      queues_.flushes.descriptor() < 0) {
    return Error{EMFILE,
                 "the threads of on-demand paging can't be started: the daemon has no "
                 "descriptors left (ulimit -n)"};
  }
  Status started = fault_thread_.start();
  started = started ? invalidation_thread_.start(fault_thread_) : started;
  started = started ? flush_thread_.start() : started;
  return started ? helpers_->start_spare() : started;
}

// Requests to a thread that has stopped are never served.
PagingService::~PagingService() {
  fault_thread_.stop();
  invalidation_thread_.stop();
  flush_thread_.stop();
}

// The fault counter shared by all sessions of a user.
std::shared_ptr<FaultCount> PagingService::faults_of(const User& user) {
  std::erase_if(user_faults_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<FaultCount> count = user_faults_[user].lock();
  if (count == nullptr) {
    count = std::make_shared<FaultCount>(0);
    user_faults_[user] = count;
  }
  return count;
}

Result<std::shared_ptr<Mirror>> PagingService::make_mirror(UniqueFd memory, std::uint64_t session,
                                                           std::shared_ptr<Account> account) {
  // The mirror charges this again; here it is for the error message.
  if (const auto room = account->charge({{Limit::kMappings},
                                         {Limit::kAddressSpace, Mirror::kTableBytes},
                                         {Limit::kPagingMemory, sizeof(Mirror)}});
      !room) {
    return room.error();
  }
  const User user = account->user();
  auto mirror = std::make_shared<Mirror>(quiescence_, std::move(memory), session,
                                         std::move(account), faults_of(user));
  if (!mirror->usable()) {
    return Error{ENOMEM, "the daemon has no room for the on-demand paging of one more program"};
  }
  if (mirror->remote() >= 0) {
    if (Status started = start_copying(*mirror); !started) {
      return started.error();
    }
  }
  if (limits_.daemon != 0 || limits_.session != 0) {
    mirror->faults_only();
  }
  return Result<std::shared_ptr<Mirror>>(std::move(mirror));
}

Result<PagingService::Channels> PagingService::open(const std::shared_ptr<Mirror>& mirror,
                                                    const Peer& peer) {
  auto share_charge = mirror->account()->charge(Limit::kDescriptors);
  auto invalidate_charge = mirror->account()->charge(Limit::kDescriptors);
  if (!share_charge || !invalidate_charge) {
    return share_charge ? invalidate_charge.error() : share_charge.error();
  }
  auto share = make_channel();
  auto invalidate = make_channel();
  if (!share || !invalidate) {
    return share ? invalidate.error() : share.error();
  }
  permit_descriptors(invalidate->first.get(), false);
  const auto socket = [&](UniqueFd& end, Charge& charge) {
    return std::make_shared<ForeignSocket>(std::move(end), mirror->user(), helpers_,
                                           std::move(charge));
  };
  // Should a later step fail for want of memory, the program's ends are closed, which ends the
  // channels that the threads have opened.
  Closing closing{.faults = fault_thread_.make_closing(mirror),
                  .invalidations = invalidation_thread_.make_closing(mirror)};
  fault_thread_.open(mirror, socket(share->first, *share_charge), peer);
  invalidation_thread_.open(mirror, socket(invalidate->first, *invalidate_charge));
  closings_.insert_or_assign(mirror.get(), std::move(closing));
  return Result<Channels>(
      Channels{.share = std::move(share->second), .invalidate = std::move(invalidate->second)});
}

void PagingService::close(const std::shared_ptr<Mirror>& mirror) noexcept {
  mirror->close();
  if (const auto at = closings_.find(mirror.get()); at != closings_.end()) {
    fault_thread_.close(std::move(at->second.faults));
    invalidation_thread_.close(std::move(at->second.invalidations));
    closings_.erase(at);
  }
}

}  // namespace uroce::control
