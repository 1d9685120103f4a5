// The paging thread: programs that take memory away.

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "abi/version.h"
#include "control/paging/paging_service.h"

namespace uroce::control {
namespace {

constexpr int kEventsMax = 16;
constexpr int kRecordsMax = 16;  // of one program in one turn

std::uint32_t block_of(std::uint32_t sequence) { return sequence | 0x8000'0000U; }

}  // namespace

void PagingService::serve_programs() {
  std::array<epoll_event, kEventsMax> events;
  while (!stopping_programs_) {
    const int count = ::epoll_wait(program_poll_.get(), events.data(), kEventsMax, -1);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if ((event.events & EPOLLPRI) != 0) {
        on_pressure();
      } else if (event.data.ptr != nullptr) {
        on_invalidate(static_cast<Mirror*>(event.data.ptr));
      }
    }
    program_tasks_.run();
  }
}

void PagingService::on_invalidate(Mirror* mirror) {
  for (int i = 0; i < kRecordsMax; ++i) {
    const auto at = invalidates_.find(mirror);
    if (at == invalidates_.end()) {
      return;
    }
    Record record;
    const Receipt receipt = receive_record(at->second.socket.get(), &record);
    if (receipt == Receipt::kNothing) {
      return;
    }
    if (receipt != Receipt::kRecord || !on_invalidate_record(at->second, record)) {
      // The program can't tell us any more what it takes away, so nothing of it is used any more.
      const std::shared_ptr<Mirror> closing = at->second.mirror;
      closing->close();
      closing->invalidate(0, 0, Mirror::kAddressEnd, true);
      invalidates_.erase(mirror);
      look_again(closing);
      return;
    }
  }
}

// False for nonsense.
bool PagingService::on_invalidate_record(InvalidateChannel& channel, const Record& record) {
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
    look_again(channel.mirror);
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
  channel.mirror->invalidate(block, Mirror::page_down(address), Mirror::page_up(address + length),
                             wanted.reason != abi::InvalidateReason::kDrop);
  channel.open.push_back(block);
  const abi::PagingHeader answer{.version = abi::kVersion,
                                 .kind = abi::PagingKind::kInvalidated,
                                 .sequence = header.sequence,
                                 .length = sizeof(answer)};
  Record reply;
  reply.bytes.resize(sizeof(answer));
  std::memcpy(reply.bytes.data(), &answer, sizeof(answer));
  return send_record(channel.socket.get(), reply) == Sending::kSent;
}

}  // namespace uroce::control
