#include "control/paging/fault_thread.h"

#include <utility>

#include "base/monotonic_clock.h"
#include "control/paging/threads.h"

namespace uroce::control {
namespace {

constexpr int kFaultRecordsMax = 16;  // of one program in one turn

}  // namespace

FaultThread::FaultThread(FaultQueue& queue, PageRemover& remover, const PagingLimits& limits)
    : queue_(queue), remover_(remover), limits_(limits), pager_(queue, *this) {
  poll_.add(queue_.descriptor());
  poll_.add(tasks_.descriptor());
}

void FaultThread::start() {
  thread_ = start_thread("uroce-fault", [this] {
    raise_priority();
    serve();
  });
}

void FaultThread::stop() {
  tasks_.put([this] { stopping_ = true; });
  if (thread_.joinable()) {
    thread_.join();
  }
}

void FaultThread::open(const std::shared_ptr<Mirror>& mirror, UniqueFd socket, const Peer& peer) {
  {
    // Not by a task: the first fault may be with the fault thread before its next tasks are.
    const std::lock_guard lock(opened_mutex_);
    opened_.emplace_back(mirror, std::move(socket), peer);
  }
  // Its program may hang up before anything is asked.
  tasks_.put([this, mirror] { channel_of(mirror.get()); });
}

void FaultThread::close(const std::shared_ptr<Mirror>& mirror) {
  tasks_.put([this, mirror] {
    channel_of(mirror.get());
    channels_.erase(mirror.get());
    pager_.changed(mirror, clock());
  });
}

void FaultThread::prefetch(Prefetch wanted) {
  tasks_.put([this, wanted = std::move(wanted)] { pager_.prefetch(wanted, clock()); });
}

void FaultThread::look_again(const std::shared_ptr<Mirror>& mirror) {
  tasks_.put([this, mirror] { pager_.changed(mirror, clock()); });
}

void FaultThread::serve() {
  while (!stopping_) {
    if (pager_.serve(clock())) {
      keep_limits();
      take_answers(0);
    } else {
      wait();
    }
    // After the answers that are there.
    if (const Time now = clock(); pager_.deadline() <= now) {
      pager_.expire(now);
    }
  }
}

void FaultThread::wait() {
  queue_.fall_asleep();
  // From here on whoever raises a fault rings. Now the last look.
  int timeout = queue_.empty() ? -1 : 0;
  if (const Time deadline = pager_.deadline(); timeout != 0 && deadline != kNever) {
    const Time now = clock();
    timeout =
        deadline <= now ? 0 : static_cast<int>((deadline - now) / kNanosecondsPerMillisecond) + 1;
  }
  take_answers(timeout);
  queue_.wake_up();
}

// What programs and other threads have to say. `timeout`: as PollSet::wait's.
void FaultThread::take_answers(int timeout) {
  for (const PollSet::Event& event : poll_.wait(timeout)) {
    if (event.mirror != nullptr) {
      on_share(event.mirror);
    }
  }
  tasks_.run();
}

void FaultThread::on_share(Mirror* mirror) {
  for (int i = 0; i < kFaultRecordsMax; ++i) {
    const auto at = channels_.find(mirror);
    if (at == channels_.end()) {
      return;
    }
    const std::shared_ptr<Mirror> hold = at->second.mirror();
    ShareChannel::Answer answer;
    switch (at->second.receive(&answer)) {
      case ShareChannel::Heard::kNothing:
        return;
      case ShareChannel::Heard::kArena:
        break;
      case ShareChannel::Heard::kAnswer:
        pager_.answered(hold, answer.sequence, answer.end, answer.pieces, clock());
        at->second.warn_when_full();
        break;
      case ShareChannel::Heard::kBroken:
        // Nobody can say any more what lies where: all faults of the session fail.
        hold->close();
        channels_.erase(at);
        pager_.changed(hold, clock());
        return;
    }
  }
}

// nullptr when it is closed.
ShareChannel* FaultThread::channel_of(Mirror* mirror) {
  auto at = channels_.find(mirror);
  if (at == channels_.end()) {
    const std::lock_guard lock(opened_mutex_);
    for (ShareChannel& channel : opened_) {
      Mirror* const opened = channel.mirror().get();
      poll_.add(channel.descriptor(), opened);
      channels_.emplace(opened, std::move(channel));
    }
    opened_.clear();
    at = channels_.find(mirror);
  }
  return at == channels_.end() ? nullptr : &at->second;
}

// Has memory given back when more is resident than may be. Faults go on meanwhile: a limit is kept
// on average, not at every moment.
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

Time FaultThread::clock() { return monotonic_now(); }

}  // namespace uroce::control
