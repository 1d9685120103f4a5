#include "control/paging/fault_thread.h"

#include <algorithm>
#include <latch>
#include <memory>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "control/paging/threads.h"

namespace uroce::control {
namespace {

constexpr int kFaultRecordsMax = 16;  // of one program per turn

}  // namespace

FaultThread::FaultThread(FaultQueue& queue, PageRemover& remover, const PagingLimits& limits,
                         std::shared_ptr<HelperPool> helpers)
    : queue_(queue),
      remover_(remover),
      limits_(limits),
      pager_(queue, *this),
      helpers_(std::move(helpers)) {
  usable_ = poll_.add(queue_.descriptor()) && poll_.add(tasks_.descriptor()) &&
            poll_.add(helpers_->descriptor());
}

Status FaultThread::start() {
  // The permission to raise it again may be dropped as soon as this returns.
  const auto raised = std::make_shared<std::latch>(1);
  auto started = start_named_thread("uroce-fault", [this, raised] {
    priority_.begin();
    queue_.raise_priority = [this] { priority_.raise(); };
    raised->count_down();
    serve();
  });
  if (!started) {
    return started.error();
  }
  thread_ = std::move(*started);
  raised->wait();
  return ok();
}

void FaultThread::stop() {
  tasks_.put([this] { stopping_ = true; });
  if (thread_.joinable()) {
    thread_.join();
  }
}

void FaultThread::open(const std::shared_ptr<Mirror>& mirror,
                       std::shared_ptr<const ForeignSocket> socket, const Peer& peer) {
  {
    // Not as a task: the first fault may reach the fault thread before its next tasks do.
    const std::lock_guard lock(opened_mutex_);
    opened_.emplace_back(mirror, std::move(socket), peer, next_tag_++, lines_);
  }
  // Its program may disconnect before the first request.
  tasks_.put([this, mirror] { channel_of(mirror.get()); });
}

TaskQueue::Task FaultThread::make_closing(const std::shared_ptr<Mirror>& mirror) {
  return TaskQueue::make_task([this, mirror] {
    channel_of(mirror.get());
    drop(mirror.get());
    pager_.changed(mirror, clock());
  });
}

void FaultThread::prefetch(Prefetch wanted) {
  wanted.mirror->prefetches().fetch_add(1, std::memory_order_relaxed);
  wanted.done = [mirror = wanted.mirror, done = std::move(wanted.done)](Access outcome) {
    mirror->prefetches().fetch_sub(1, std::memory_order_relaxed);
    if (done) {
      done(outcome);
    }
  };
  tasks_.put([this, wanted = std::move(wanted)] { pager_.prefetch(wanted, clock()); });
}

void FaultThread::retry_faults(const std::shared_ptr<Mirror>& mirror) {
  // Once in line, however often a program's memory changes. The exchanges order what has changed
  // before what the task sees.
  TaskQueue::Task retry = TaskQueue::make_task([this, mirror] {
    mirror->retry_queued().exchange(false, std::memory_order_acq_rel);
    pager_.changed(mirror, clock());
  });
  if (!mirror->retry_queued().exchange(true, std::memory_order_acq_rel)) {
    tasks_.put(std::move(retry));
  }
}

void FaultThread::serve() {
  heartbeat_.begin();
  while (!stopping_) {
    heartbeat_.beat();
    if (pager_.serve(clock())) {
      keep_limits();
      take_answers(0);
    } else {
      wait();
    }
    // Answers that have arrived come first.
    if (const Time now = clock(); pager_.deadline() <= now) {
      pager_.expire(now);
    }
  }
  heartbeat_.end();
}

void FaultThread::wait() {
  queue_.fall_asleep();
  // From here on, raising a fault wakes this thread. Last check before it sleeps.
  int timeout = queue_.empty() ? -1 : 0;
  if (const Time deadline = pager_.deadline(); timeout != 0 && deadline != kNever) {
    const Time now = clock();
    timeout =
        deadline <= now ? 0 : static_cast<int>((deadline - now) / kNanosecondsPerMillisecond) + 1;
  }
  take_answers(timeout);
  queue_.wake_up();
}

// Processes records from programs and requests of other threads. `timeout`: as for PollSet::wait.
void FaultThread::take_answers(int timeout) {
  heartbeat_.rest();
  const std::span<const PollSet::Event> events = poll_.wait(timeout);
  heartbeat_.beat();
  for (const PollSet::Event& event : events) {
    heartbeat_.beat();
    if (event.mirror != nullptr) {
      on_share(event.mirror);
    }
  }
  on_helpers();
  tasks_.run();
}

void FaultThread::on_share(Mirror* mirror) {
  for (int i = 0; i < kFaultRecordsMax; ++i) {
    const auto at = channels_.find(mirror);
    if (at == channels_.end()) {
      return;
    }
    ShareChannel::Answer answer;
    const ShareChannel::AnswerStatus status = at->second.receive(*helpers_, *inbox_, &answer);
    if (!on_received(at->second, status, answer)) {
      return;
    }
  }
}

// Records with descriptors, which helpers have received.
void FaultThread::on_helpers() {
  helpers_->clear_event();
  for (Inbox::Arrival& arrival : inbox_->take()) {
    const auto at = std::find_if(channels_.begin(), channels_.end(), [&](const auto& entry) {
      return entry.second.tag() == arrival.tag;
    });
    if (at == channels_.end()) {
      continue;  // closed meanwhile
    }
    ShareChannel::Answer answer;
    const bool watched = poll_.add(at->second.descriptor(), at->first);
    const ShareChannel::AnswerStatus status =
        watched ? at->second.handle_record(arrival.receipt, std::move(*arrival.record),
                                           std::move(arrival.opened), &answer)
                : ShareChannel::AnswerStatus::kBroken;
    (void)on_received(at->second, status, answer);
  }
}

// False if there is nothing more to receive now.
bool FaultThread::on_received(ShareChannel& channel, ShareChannel::AnswerStatus status,
                              const ShareChannel::Answer& answer) {
  const std::shared_ptr<Mirror> mirror = channel.mirror();
  switch (status) {
    case ShareChannel::AnswerStatus::kNothing:
      return false;
    case ShareChannel::AnswerStatus::kArena:
      return true;
    case ShareChannel::AnswerStatus::kAnswer:
      pager_.answered(mirror, answer.sequence, answer.end, answer.pieces, clock());
      channel.warn_when_full();
      return true;
    case ShareChannel::AnswerStatus::kFetched:
      // Further records, and the faults that they answer, wait in the socket.
      poll_.remove(channel.descriptor());
      return false;
    case ShareChannel::AnswerStatus::kBroken:
      break;
  }
  // The program can't describe its memory any more: all faults of the session fail.
  mirror->close();
  drop(mirror.get());
  pager_.changed(mirror, clock());
  return false;
}

// Not by closing it: a helper may still hold the socket.
void FaultThread::drop(Mirror* mirror) {
  if (const auto at = channels_.find(mirror); at != channels_.end()) {
    poll_.remove(at->second.descriptor());
    channels_.erase(at);
  }
}

// nullptr if it is closed.
ShareChannel* FaultThread::channel_of(Mirror* mirror) {
  auto at = channels_.find(mirror);
  if (at == channels_.end()) {
    const std::lock_guard lock(opened_mutex_);
    for (ShareChannel& channel : opened_) {
      Mirror* const opened = channel.mirror().get();
      if (poll_.add(channel.descriptor(), opened)) {
        channels_.emplace(opened, std::move(channel));
      } else {
        opened->close();  // epoll can't watch it, so all faults of the session fail
      }
    }
    opened_.clear();
    at = channels_.find(mirror);
  }
  return at == channels_.end() ? nullptr : &at->second;
}

// Requests reclaim when more is resident than allowed. Faults are served meanwhile, so a limit
// holds on average, not at every moment.
void FaultThread::keep_limits() {
  if (limits_.daemon == 0 && limits_.session == 0) {
    return;
  }
  std::uint64_t all = 0;
  bool over = false;
  for (const auto& [mirror, channel] : channels_) {
    const std::uint64_t resident = mirror->resident_bytes();
    all += resident;
    over = over || (limits_.session != 0 && resident > limits_.session);
  }
  over = over || (limits_.daemon != 0 && all > limits_.daemon);
  pager_.set_frugal(over);
  if (over) {
    remover_.reclaim();
  }
}

bool FaultThread::ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
                      std::uint32_t sequence) {
  const ShareChannel* const channel = channel_of(&mirror);
  return channel != nullptr && channel->ask(first, end, write, sequence);
}

void FaultThread::forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                         std::uint64_t end) {
  remover_.forget(mirror, first, end);
}

// If a worker raises a fault meanwhile, that restores the priority (FaultQueue::raise).
void FaultThread::in_background(bool begins) {
  if (!begins) {
    queue_.in_background.store(false, std::memory_order_relaxed);
    priority_.raise();
  } else if (queue_.empty()) {
    priority_.lower();
    queue_.in_background.store(true, std::memory_order_relaxed);
  }
}

Time FaultThread::clock() { return monotonic_now(); }

}  // namespace uroce::control
