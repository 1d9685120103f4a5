// The fault thread, and its conversation with the programs on the share channels.

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "abi/version.h"
#include "control/paging/paging_service.h"
#include "dataplane/engine/runner.h"

namespace uroce::control {
namespace {

constexpr int kEventsMax = 16;
constexpr int kRecordsMax = 16;  // of one program in one turn

template <typename Body>
bool read_body(const Record& record, Body* body) {
  static_assert(std::is_trivially_copyable_v<Body>);
  if (record.bytes.size() < sizeof(Body)) {
    return false;
  }
  std::memcpy(body, record.bytes.data(), sizeof(Body));
  return true;
}

bool sound(const abi::PagingHeader& header, const Record& record) {
  return header.magic == abi::kPagingMagic && header.version == abi::kVersion &&
         header.length == record.bytes.size() &&
         header.descriptor_count == record.descriptors.size();
}

}  // namespace

void PagingService::serve_faults() {
  while (!stopping_faults_) {
    if (pager_.serve(monotonic_now())) {
      keep_limits();
      take_answers(0);
    } else {
      wait_for_faults();
    }
    // After the answers that are there.
    if (const Time now = monotonic_now(); pager_.deadline() <= now) {
      pager_.expire(now);
    }
  }
}

void PagingService::wait_for_faults() {
  queue_.fall_asleep();
  // From here on whoever raises a fault rings. Now the last look.
  int timeout = queue_.empty() ? -1 : 0;
  if (const Time deadline = pager_.deadline(); timeout != 0 && deadline != kNever) {
    const Time now = monotonic_now();
    timeout =
        deadline <= now ? 0 : static_cast<int>((deadline - now) / kNanosecondsPerMillisecond) + 1;
  }
  take_answers(timeout);
  queue_.wake_up();
}

// What programs and other threads have to say. `timeout`: ms, as epoll_wait's.
void PagingService::take_answers(int timeout) {
  std::array<epoll_event, kEventsMax> events;
  const int count = ::epoll_wait(fault_poll_.get(), events.data(), kEventsMax, timeout);
  for (int i = 0; i < count; ++i) {
    if (void* const mirror = events[static_cast<std::size_t>(i)].data.ptr; mirror != nullptr) {
      on_share(static_cast<Mirror*>(mirror));
    }
  }
  fault_tasks_.run();
}

// nullptr when it is closed.
PagingService::ShareChannel* PagingService::share_of(Mirror* mirror) {
  auto at = shares_.find(mirror);
  if (at == shares_.end()) {
    const std::lock_guard lock(opened_mutex_);
    for (ShareChannel& channel : opened_) {
      watch(fault_poll_, channel.socket.get(), channel.mirror.get());
      shares_.emplace(channel.mirror.get(), std::move(channel));
    }
    opened_.clear();
    at = shares_.find(mirror);
  }
  return at == shares_.end() ? nullptr : &at->second;
}

bool PagingService::ask(Mirror& mirror, std::uint64_t first, std::uint64_t end, bool write,
                        std::uint32_t sequence) {
  const ShareChannel* const channel = share_of(&mirror);
  if (channel == nullptr) {
    return false;
  }
  const abi::ShareRange question{
      .header = {.version = abi::kVersion,
                 .kind = abi::PagingKind::kShareRange,
                 .sequence = sequence,
                 .length = sizeof(abi::ShareRange)},
      .address = first,
      .length = end - first,
      .rights = abi::kPagingRead | (write ? static_cast<std::uint32_t>(abi::kPagingWrite) : 0U),
      .reserved = 0};
  Record record;
  record.bytes.resize(sizeof(question));
  std::memcpy(record.bytes.data(), &question, sizeof(question));
  // A program that doesn't read its questions has so many waiting that its faults may as well fail.
  return send_record(channel->socket.get(), record) == Sending::kSent;
}

void PagingService::forget(const std::shared_ptr<Mirror>& mirror, std::uint64_t first,
                           std::uint64_t end) {
  program_tasks_.put([this, mirror, first, end] {
    constexpr std::uint32_t kOurs = 0;  // programs' have the highest bit
    mirror->invalidate(kOurs, first, end, true);
    mirror->unblock(kOurs);
    look_again(mirror);
  });
}

// Disks are slow: neither the fault thread nor the one that serves invalidations waits for them.
void PagingService::serve_flushes() {
  pollfd wanted{.fd = flushes_.descriptor(), .events = POLLIN, .revents = 0};
  while (!stopping_flushes_.load(std::memory_order_relaxed)) {
    if (Flush* const flush = flushes_.next(); flush != nullptr) {
      flush->outcome = flush->write_back();
      flushes_.resume(flush);
      continue;
    }
    flushes_.fall_asleep();
    // From here on whoever raises a flush rings. Now the last look.
    ::poll(&wanted, 1, flushes_.empty() ? -1 : 0);
    flushes_.wake_up();
  }
}

void PagingService::look_again(const std::shared_ptr<Mirror>& mirror) {
  fault_tasks_.put([this, mirror] { pager_.changed(mirror, monotonic_now()); });
}

// Has memory given back when more is resident than may be. Faults go on meanwhile: a limit is kept
// on average, not at every moment.
void PagingService::keep_limits() {
  if (limits_.daemon == 0 && limits_.session == 0) {
    return;
  }
  std::uint64_t all = 0;
  bool over = false;
  for (const auto& [mirror, channel] : shares_) {
    const std::uint64_t resident = mirror->resident_bytes();
    all += resident;
    over = over || (limits_.session != 0 && resident > limits_.session);
  }
  over = over || (limits_.daemon != 0 && all > limits_.daemon);
  pager_.set_frugal(over);
  if (over && !reclaiming_.exchange(true, std::memory_order_relaxed)) {
    program_tasks_.put([this] {
      reclaiming_.store(false, std::memory_order_relaxed);
      reclaim();
    });
  }
}

Time PagingService::clock() { return monotonic_now(); }

void PagingService::on_share(Mirror* mirror) {
  for (int i = 0; i < kRecordsMax; ++i) {
    const auto at = shares_.find(mirror);
    if (at == shares_.end()) {
      return;
    }
    Record record;
    const Receipt receipt = receive_record(at->second.socket.get(), &record);
    if (receipt == Receipt::kNothing) {
      return;
    }
    if (receipt != Receipt::kRecord || !on_share_record(at->second, std::move(record))) {
      const std::shared_ptr<Mirror> closing = at->second.mirror;
      closing->close();
      shares_.erase(mirror);
      pager_.changed(closing, monotonic_now());
      return;
    }
  }
}

// False for nonsense: then the channel is closed, and all faults of the session fail.
bool PagingService::on_share_record(ShareChannel& channel, Record record) {
  abi::PagingHeader header;
  if (!read_body(record, &header) || !sound(header, record)) {
    return false;
  }
  if (header.kind == abi::PagingKind::kArena) {
    abi::PagingArena arena;
    if (!read_body(record, &arena) || record.descriptors.size() != 1) {
      return false;
    }
    const Status added = channel.files.add_arena(std::move(record.descriptors[0]), arena.page_size);
    return static_cast<bool>(added);
  }
  return header.kind == abi::PagingKind::kSharedRange && on_answer(channel, record);
}

bool PagingService::on_answer(ShareChannel& channel, const Record& record) {
  if (record.bytes.size() < sizeof(abi::SharedRange)) {
    return false;
  }
  abi::SharedRange head;
  std::memcpy(&head, record.bytes.data(), sizeof(head));
  if (head.piece_count > abi::kSharedPiecesMax ||
      record.bytes.size() !=
          sizeof(abi::SharedRange) + head.piece_count * sizeof(abi::SharedPiece)) {
    return false;
  }
  std::vector<MirrorPiece> pieces;
  std::vector<UniqueFd> opened;
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < head.piece_count; ++i) {
    abi::SharedPiece piece;
    std::memcpy(&piece, record.bytes.data() + sizeof(abi::SharedRange) + i * sizeof(piece),
                sizeof(piece));
    if ((piece.rights & abi::kPagingRead) == 0) {
      continue;  // what may not be read might as well not be there
    }
    auto made = channel.files.resolve(piece.memory, (piece.rights & abi::kPagingWrite) != 0,
                                      record.descriptors, &opened);
    if (!made || made->address < last) {
      return false;
    }
    last = made->address + made->length;
    pieces.push_back(*made);
  }
  const std::shared_ptr<Mirror> mirror = channel.mirror;
  pager_.answered(mirror, head.header.sequence, head.error != 0 ? 0 : head.end, pieces,
                  monotonic_now());
  if (mirror->full() && !std::exchange(channel.said_full, true)) {
    spdlog::warn(
        "session {}: no more of its memory can be reached on demand, and is taken for memory that "
        "isn't mapped: the program has touched 2 TiB, or 16 TiB of addresses, or the daemon has no "
        "addresses left; divide the work among processes",
        mirror->session());
  }
  return true;
}

}  // namespace uroce::control
