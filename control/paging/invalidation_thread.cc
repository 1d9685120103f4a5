#include "control/paging/invalidation_thread.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "control/paging/announcement.h"
#include "control/paging/threads.h"
#include "mmu/proc_mem/proc_mem_thread.h"

namespace uroce::control {
namespace {

// Blocks of the mirror (Mirror::invalidate): a program's have the highest bit.
constexpr std::uint32_t kOurBlock = 0;
constexpr std::uint32_t kClosingBlock = 1;  // never released
std::uint32_t block_of(std::uint32_t sequence) { return sequence | 0x8000'0000U; }

}  // namespace

InvalidationThread::InvalidationThread(const PagingLimits& limits) : limits_(limits) {
  usable_ = poll_.add(tasks_->descriptor());
  watch_pressure();
}

Status InvalidationThread::start(FaultWaiters& waiters) {
  waiters_ = &waiters;
  auto started = start_named_thread("uroce-invalid", [this] { serve(); });
  if (!started) {
    return started.error();
  }
  thread_ = std::move(*started);
  return ok();
}

void InvalidationThread::stop() {
  tasks_->put([this] { stopping_ = true; });
  if (thread_.joinable()) {
    thread_.join();
  }
}

void InvalidationThread::open(const std::shared_ptr<Mirror>& mirror,
                              std::shared_ptr<const ForeignSocket> socket) {
  // Tasks are copied, descriptors can't be.
  auto channel = std::make_shared<Channel>(
      Channel{.mirror = mirror, .socket = std::move(socket), .open = {}, .under_way = {}});
  tasks_->put([this, channel] {
    Mirror* const opened = channel->mirror.get();
    if (poll_.add(channel->socket->get(), opened)) {
      channels_.emplace(opened, std::move(*channel));
    } else {
      opened->close();  // its invalidations couldn't be received
    }
  });
}

// Resident memory is invalidated in slices, even if this is the mirror's last owner: unmapping a
// large one at once takes long and would delay all other programs. The program, which may still
// run, doesn't wait for it: no region is left that gives access to its memory, and hang_up() waits
// for copies.
TaskQueue::Task InvalidationThread::make_closing(const std::shared_ptr<Mirror>& mirror) {
  return TaskQueue::make_task([this, mirror] {
    if (const auto at = channels_.find(mirror.get()); at != channels_.end()) {
      hang_up(at->second);
      if (at->second.closing) {
        return;
      }
      close_memory(at->second);
      wait_for_turn(at->second);
    }
  });
}

void InvalidationThread::forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                                std::uint64_t end) {
  tasks_->put([this, mirror, first, end] {
    mirror->invalidate(kOurBlock, first, end, true, true);
    mirror->unblock(kOurBlock);
    waiters_->retry_faults(mirror);
  });
}

void InvalidationThread::reclaim() {
  if (!reclaiming_.exchange(true, std::memory_order_relaxed)) {
    tasks_->put([this] {
      reclaiming_.store(false, std::memory_order_relaxed);
      keep_limits();
    });
  }
}

void InvalidationThread::serve() {
  heartbeat_.begin();
  while (!stopping_) {
    heartbeat_.rest();
    const std::span<const PollSet::Event> events = poll_.wait(turns_.empty() ? -1 : 0);
    for (const PollSet::Event& event : events) {
      heartbeat_.beat();
      if (event.pressure) {
        on_pressure();
      } else if (const auto at = channels_.find(event.mirror); at != channels_.end()) {
        wait_for_turn(at->second);
      }
    }
    for (std::size_t users = turns_.users(); users != 0; --users) {
      heartbeat_.beat();
      take_turn(turns_.next());
    }
    heartbeat_.beat();
    tasks_->run();
  }
  heartbeat_.end();
}

void InvalidationThread::wait_for_turn(Channel& channel) {
  if (!std::exchange(channel.queued, true)) {
    turns_.push(channel.mirror->user(), channel.mirror.get());
  }
}

void InvalidationThread::take_turn(Mirror* mirror) {
  const auto at = channels_.find(mirror);
  if (at == channels_.end()) {
    return;
  }
  Channel& channel = at->second;
  channel.queued = false;
  if (!channel.under_way && !receive_announcement(channel)) {
    close_memory(channel);
  }
  if (!channel.under_way) {
    return;
  }
  if (mirror->clear_next_slice(*channel.under_way)) {
    wait_for_turn(channel);
  } else if (channel.closing) {
    const std::shared_ptr<Mirror> closed = channel.mirror;
    drop(mirror);
    waiters_->retry_faults(closed);
  } else if (!finish(channel)) {
    close_memory(channel);
    wait_for_turn(channel);
  }
}

// One record. False: the program can't announce invalidations any more.
bool InvalidationThread::receive_announcement(Channel& channel) {
  Record record;
  const ReceiveStatus receipt = receive_plain_record(channel.socket->get(), &record);
  return receipt == ReceiveStatus::kNothing ||
         (receipt == ReceiveStatus::kRecord && on_record(channel, record));
}

// None of the program's memory is in use any more.
void InvalidationThread::close_memory(Channel& channel) {
  poll_.remove(channel.socket->get());
  channel.mirror->close();
  channel.closing = true;
  channel.under_way =
      channel.mirror->begin_invalidation(kClosingBlock, 0, Mirror::kAddressEnd, true);
  waiters_->retry_faults(channel.mirror);
}

// Tells a program that waits for an answer that there will be none: its call then takes the memory
// away. So not before the program's copies are done, which may take as long as the program likes;
// until then its socket stays open.
void InvalidationThread::hang_up(const Channel& channel) {
  const auto end = [socket = channel.socket] { (void)::shutdown(socket->get(), SHUT_RDWR); };
  if (channel.mirror->program() == nullptr || channel.mirror->program()->when_idle(end)) {
    end();
  }
}

// Not by closing it: a helper closes sockets that may hold descriptors, which may take long.
void InvalidationThread::drop(Mirror* mirror) {
  if (const auto at = channels_.find(mirror); at != channels_.end()) {
    poll_.remove(at->second.socket->get());
    hang_up(at->second);
    channels_.erase(at);
  }
}

// False if it is invalid.
bool InvalidationThread::on_record(Channel& channel, const Record& record) {
  const auto said = read_announcement(record);
  if (!said) {
    return false;
  }
  const std::uint32_t block = block_of(said->sequence);
  if (said->over) {
    const auto ended = std::ranges::find(channel.open, said->sequence, &Open::sequence);
    if (ended == channel.open.end()) {
      return true;  // begun on an earlier channel, whose end was its end
    }
    if (!ended->answered) {
      return false;  // what waits for the program's helper would be without bound
    }
    channel.open.erase(ended);
    channel.mirror->unblock(block);
    waiters_->retry_faults(channel.mirror);
    return true;
  }
  if (channel.open.size() >= abi::kInvalidationsMax) {
    return false;
  }
  channel.sequence = said->sequence;
  channel.under_way =
      channel.mirror->begin_invalidation(block, said->first, said->end, said->forget, said->keeps);
  return true;
}

// The last slice is done. False: a worker hangs.
bool InvalidationThread::finish(Channel& channel) {
  if (std::exchange(channel.under_way, std::nullopt)->in_vain) {
    return false;  // the program mustn't assume that its memory is unused
  }
  Open& opened = channel.open.emplace_back(Open{.sequence = channel.sequence, .answered = false});
  // Workers hold none of it any more, but the program's helper may still be accessing it; for how
  // long depends on the program only, so nobody waits here.
  const std::weak_ptr<Mirror> mirror = channel.mirror;
  opened.answered = channel.mirror->program() == nullptr ||
                    channel.mirror->program()->when_idle(
                        [this, tasks = tasks_, mirror, sequence = channel.sequence] {
                          tasks->put([this, mirror, sequence] { answer_late(mirror, sequence); });
                        });
  return !opened.answered || answer(channel, channel.sequence);
}

void InvalidationThread::answer_late(const std::weak_ptr<Mirror>& mirror, std::uint32_t sequence) {
  const auto at = channels_.find(mirror.lock().get());
  if (at == channels_.end()) {
    return;
  }
  std::vector<Open>& open = at->second.open;
  const auto waits = std::ranges::find_if(open, [sequence](const Open& other) {
    return other.sequence == sequence && !other.answered;
  });
  if (waits != open.end()) {
    waits->answered = true;
    (void)answer(at->second, sequence);
  }
}

bool InvalidationThread::answer(const Channel& channel, std::uint32_t sequence) {
  const abi::PagingHeader header{.version = abi::kVersion,
                                 .kind = abi::PagingKind::kInvalidated,
                                 .sequence = sequence,
                                 .length = sizeof(header)};
  Record reply;
  reply.bytes.resize(sizeof(header));
  std::memcpy(reply.bytes.data(), &header, sizeof(header));
  return send_record(channel.socket->get(), reply) == Sending::kSent;
}

}  // namespace uroce::control
