// Life of the paging threads, and what the control thread asks of them.

#include "control/paging/paging_service.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/system_error.h"
#include "dataplane/engine/runner.h"
#include "mmu/remote_memory.h"

namespace uroce::control {
namespace {

constexpr int kFifoPriority = 1;  // the lowest of the real-time ones: above all ordinary threads
constexpr int kNice = -20;

// Threads inherit the one processor that the EAL pins the main thread to.
void use_all_processors() {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    CPU_SET(cpu, &all);
  }
  // The kernel takes those that this process may use.
  static_cast<void>(::sched_setaffinity(0, sizeof(all), &all));
}

void raise_priority() {
  const sched_param wanted{.sched_priority = kFifoPriority};
  if (::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &wanted) == 0) {
    spdlog::info("page faults are served with real-time priority (SCHED_FIFO {})", kFifoPriority);
  } else if (::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice) == 0) {
    spdlog::info("page faults are served with nice {}: SCHED_FIFO is refused", kNice);
  } else {
    spdlog::info(
        "page faults are served with ordinary priority: SCHED_FIFO and nice {} are refused", kNice);
  }
}

void ring(int event_descriptor) {
  const std::uint64_t one = 1;
  // Fails only if the counter is about to overflow, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(event_descriptor, &one, sizeof(one));
}

void quieten(int event_descriptor) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(event_descriptor, &count, sizeof(count));
}

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

TaskQueue::TaskQueue() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  UROCE_CHECK(descriptor_.valid());
}

void TaskQueue::put(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ring(descriptor_.get());
}

void TaskQueue::run() {
  quieten(descriptor_.get());
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) {
    task();
  }
}

PagingService::PagingService(PagingQueues& queues, Quiescence& quiescence,
                             const PagingLimits& limits)
    : queue_(queues.faults),
      flushes_(queues.flushes),
      quiescence_(quiescence),
      limits_(limits),
      pager_(queue_, *this),
      control_descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      fault_poll_(::epoll_create1(EPOLL_CLOEXEC)),
      program_poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  UROCE_CHECK(control_descriptor_.valid() && fault_poll_.valid() && program_poll_.valid());
  watch(fault_poll_, queue_.descriptor(), nullptr);
  watch(fault_poll_, fault_tasks_.descriptor(), nullptr);
  watch(program_poll_, program_tasks_.descriptor(), nullptr);
  watch_pressure();
}

void PagingService::start() {
  fault_thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "uroce-fault");
    use_all_processors();
    raise_priority();
    serve_faults();
  });
  program_thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "uroce-paging");
    use_all_processors();
    serve_programs();
  });
  flush_thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "uroce-flush");
    use_all_processors();
    serve_flushes();
  });
}

PagingService::~PagingService() {
  fault_tasks_.put([this] { stopping_faults_ = true; });
  program_tasks_.put([this] { stopping_programs_ = true; });
  stopping_flushes_.store(true, std::memory_order_relaxed);
  flushes_.ring();
  if (fault_thread_.joinable()) {
    fault_thread_.join();
    program_thread_.join();
    flush_thread_.join();
  }
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
  {
    // Not by a task: the first fault may be with the fault thread before its next tasks are.
    const std::lock_guard lock(opened_mutex_);
    opened_.push_back({mirror, std::move(share->first), MirrorFiles(peer.pid, peer.uid)});
  }
  // TaskQueue are copied, descriptors aren't.
  auto invalidating = std::make_shared<InvalidateChannel>(
      InvalidateChannel{mirror, std::move(invalidate->first), {}});
  // Its program may hang up before anything is asked.
  fault_tasks_.put([this, mirror] { share_of(mirror.get()); });
  program_tasks_.put([this, invalidating] {
    watch(program_poll_, invalidating->socket.get(), invalidating->mirror.get());
    invalidates_.emplace(invalidating->mirror.get(), std::move(*invalidating));
  });
  return Result<Channels>(
      Channels{.share = std::move(share->second), .invalidate = std::move(invalidate->second)});
}

void PagingService::close(const std::shared_ptr<Mirror>& mirror) {
  mirror->close();
  fault_tasks_.put([this, mirror] {
    share_of(mirror.get());
    shares_.erase(mirror.get());
    pager_.changed(mirror, monotonic_now());
  });
  program_tasks_.put([this, mirror] { invalidates_.erase(mirror.get()); });
}

void PagingService::prefetch(Prefetch wanted) {
  fault_tasks_.put(
      [this, wanted = std::move(wanted)] { pager_.prefetch(wanted, monotonic_now()); });
}

// `mirror`: whose descriptor it is; nullptr: not a program's.
void PagingService::watch(const UniqueFd& poll, int descriptor, Mirror* mirror) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = mirror;
  UROCE_CHECK(::epoll_ctl(poll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0);
}

void PagingService::notify_control() { ring(control_descriptor_.get()); }

void PagingService::control_woken() { quieten(control_descriptor_.get()); }

}  // namespace uroce::control
