#include "control/paging/invalidation_thread.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "abi/paging_records.h"
#include "abi/version.h"
#include "control/paging/threads.h"
#include "mmu/remote_program.h"

namespace uroce::control {
namespace {

constexpr int kRecordsMax = 16;  // of one program in one turn

// Blocks of the mirror (Mirror::invalidate): a program's have the highest bit.
constexpr std::uint32_t kOurBlock = 0;
std::uint32_t block_of(std::uint32_t sequence) { return sequence | 0x8000'0000U; }

}  // namespace

InvalidationThread::InvalidationThread(const PagingLimits& limits) : limits_(limits) {
  usable_ = poll_.add(tasks_->descriptor());
  watch_pressure();
}

void InvalidationThread::start(FaultWaiters& waiters) {
  waiters_ = &waiters;
  thread_ = start_thread("uroce-invalid", [this] { serve(); });
}

void InvalidationThread::stop() {
  tasks_->put([this] { stopping_ = true; });
  if (thread_.joinable()) {
    thread_.join();
  }
}

void InvalidationThread::open(const std::shared_ptr<Mirror>& mirror,
                              std::shared_ptr<const ForeignSocket> socket) {
  // Tasks are copied, descriptors aren't.
  auto channel = std::make_shared<Channel>(Channel{mirror, std::move(socket), {}});
  tasks_->put([this, channel] {
    Mirror* const opened = channel->mirror.get();
    if (poll_.add(channel->socket->get(), opened)) {
      channels_.emplace(opened, std::move(*channel));
    } else {
      opened->close();  // what it takes away couldn't be heard of
    }
  });
}

void InvalidationThread::close(const std::shared_ptr<Mirror>& mirror) {
  tasks_->put([this, mirror] { drop(mirror.get()); });
}

void InvalidationThread::forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                                std::uint64_t end) {
  tasks_->put([this, mirror, first, end] {
    mirror->invalidate(kOurBlock, first, end, true);
    mirror->unblock(kOurBlock);
    waiters_->look_again(mirror);
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
    const std::span<const PollSet::Event> events = poll_.wait(-1);
    for (const PollSet::Event& event : events) {
      heartbeat_.beat();
      if (event.pressure) {
        on_pressure();
      } else if (event.mirror != nullptr) {
        on_channel(event.mirror);
      }
    }
    heartbeat_.beat();
    tasks_->run();
  }
  heartbeat_.end();
}

void InvalidationThread::on_channel(Mirror* mirror) {
  for (int i = 0; i < kRecordsMax; ++i) {
    const auto at = channels_.find(mirror);
    if (at == channels_.end()) {
      return;
    }
    Record record;
    const Receipt receipt = receive_plain_record(at->second.socket->get(), &record);
    if (receipt == Receipt::kNothing) {
      return;
    }
    if (receipt != Receipt::kRecord || !on_record(at->second, record)) {
      // The program can't tell us any more what it takes away, so nothing of it is used any more.
      const std::shared_ptr<Mirror> closing = at->second.mirror;
      closing->close();
      closing->invalidate(kOurBlock, 0, Mirror::kAddressEnd, true);
      drop(mirror);
      waiters_->look_again(closing);
      return;
    }
  }
}

// Not by closing it: a helper closes what may hold descriptors, and takes its time.
void InvalidationThread::drop(Mirror* mirror) {
  if (const auto at = channels_.find(mirror); at != channels_.end()) {
    poll_.remove(at->second.socket->get());
    channels_.erase(at);
  }
}

// False for nonsense, and when a worker hangs.
bool InvalidationThread::on_record(Channel& channel, const Record& record) {
  abi::PagingHeader header;
  if (record.bytes.size() < sizeof(header)) {
    return false;
  }
  std::memcpy(&header, record.bytes.data(), sizeof(header));
  if (header.magic != abi::kPagingMagic || header.version != abi::kVersion ||
      header.length != record.bytes.size() || !record.descriptors.empty()) {
    return false;
  }
  const std::uint32_t block = block_of(header.sequence);
  if (header.kind == abi::PagingKind::kInvalidateEnd) {
    std::erase(channel.open, block);
    channel.mirror->unblock(block);
    waiters_->look_again(channel.mirror);
    return true;
  }
  abi::Invalidate wanted;
  if (header.kind != abi::PagingKind::kInvalidate || record.bytes.size() != sizeof(wanted) ||
      channel.open.size() >= abi::kInvalidationsMax) {
    return false;
  }
  std::memcpy(&wanted, record.bytes.data(), sizeof(wanted));
  const std::uint64_t address = std::min(wanted.address, Mirror::kAddressEnd);
  const std::uint64_t length = std::min(wanted.length, Mirror::kAddressEnd - address);
  if (!channel.mirror->invalidate(block, Mirror::page_down(address),
                                  Mirror::page_up(address + length),
                                  wanted.reason != abi::InvalidateReason::kDrop)) {
    return false;  // the program mustn't think that nobody is at its memory any more
  }
  channel.open.push_back(block);
  // Workers hold none of it any more, but the program's helper may be at it still; for how long is
  // the program's own business, so nobody waits here.
  const std::weak_ptr<Mirror> mirror = channel.mirror;
  const bool over = channel.mirror->program() == nullptr ||
                    channel.mirror->program()->when_idle(
                        [this, tasks = tasks_, mirror, sequence = header.sequence] {
                          tasks->put([this, mirror, sequence] { answer_late(mirror, sequence); });
                        });
  return !over || answer(channel, header.sequence);
}

void InvalidationThread::answer_late(const std::weak_ptr<Mirror>& mirror, std::uint32_t sequence) {
  const auto at = channels_.find(mirror.lock().get());
  if (at != channels_.end()) {
    static_cast<void>(answer(at->second, sequence));
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
