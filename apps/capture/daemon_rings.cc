#include "apps/capture/daemon_rings.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/version.h"
#include "base/sockets/daemon_peer.h"
#include "base/sockets/record_socket.h"
#include "base/system_error.h"

namespace uroce::capture {

RingReader::RingReader(std::span<std::byte> memory)
    : control_(*reinterpret_cast<abi::CaptureControl*>(memory.data())),
      ring_(memory.data() + abi::kCaptureRingOffset),
      size_(memory.size() - abi::kCaptureRingOffset) {}

void RingReader::copy(std::uint64_t at, void* to, std::size_t length) const {
  if (length == 0) {
    return;  // there may be no place for nothing, which memcpy wants
  }
  const std::uint64_t begin = at & (size_ - 1);
  const std::size_t first = std::min<std::uint64_t>(length, size_ - begin);
  std::memcpy(to, ring_ + begin, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring_, length - first);
}

std::optional<Record> RingReader::next() {
  const std::uint64_t there = control_.head.load(std::memory_order_acquire) - tail_;
  Record record;
  if (broken_ || there < sizeof(record.head)) {
    return std::nullopt;
  }
  copy(tail_, &record.head, sizeof(record.head));
  if (record.head.length > there ||
      record.head.length < sizeof(record.head) + std::uint64_t{record.head.kept_length}) {
    broken_ = true;
    return std::nullopt;
  }
  record.bytes.resize(record.head.kept_length);
  copy(tail_ + sizeof(record.head), record.bytes.data(), record.bytes.size());
  tail_ += record.head.length;
  control_.tail.store(tail_, std::memory_order_release);
  return record;
}

std::uint64_t RingReader::missed() const { return control_.missed.load(std::memory_order_relaxed); }

Result<DaemonRings> DaemonRings::open(const std::string& socket, std::uint64_t ring_bytes,
                                      std::uint32_t snap) {
  DaemonRings rings;
  auto connection = connect_to_daemon(socket);
  if (!connection) {
    return connection.error();
  }
  rings.connection_ = std::move(*connection);
  permit_descriptors(rings.connection_.get(), true);
  // A daemon that stands still is told of, not waited for.
  constexpr timeval kTimeout{.tv_sec = 30, .tv_usec = 0};
  ::setsockopt(rings.connection_.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  abi::CaptureRequest request{};
  request.header.version = abi::kVersion;
  request.header.command = abi::Command::kCapture;
  request.header.length = sizeof(request);
  request.ring_bytes = ring_bytes;
  request.snap = snap;
  uroce::Record record;
  record.bytes.resize(sizeof(request));
  std::memcpy(record.bytes.data(), &request, sizeof(request));
  (void)send_record(rings.connection_.get(), record);
  abi::CaptureReply reply{};
  const ReceiveStatus receipt = receive_record(rings.connection_.get(), &record);
  if (receipt == ReceiveStatus::kNothing) {
    return Error{ETIMEDOUT, "the daemon at " + socket + " hasn't answered for 30 s"};
  }
  if (receipt != ReceiveStatus::kRecord || record.bytes.size() < sizeof(reply.header)) {
    return Error{EIO, "the daemon at " + socket + " closed the connection"};
  }
  std::memcpy(&reply, record.bytes.data(), std::min(sizeof(reply), record.bytes.size()));
  if (reply.header.error != 0) {
    reply.header.message[abi::kMessageMax - 1] = '\0';
    return Error{reply.header.error, reply.header.message};
  }
  const std::size_t length = abi::kCaptureRingOffset + reply.ring_bytes;
  for (const UniqueFd& descriptor : record.descriptors) {
    void* const start =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (start == MAP_FAILED) {
      return system_error("can't map a worker's ring");
    }
    rings.memory_.emplace_back(static_cast<std::byte*>(start), length);
    rings.rings_.emplace_back(rings.memory_.back());
  }
  rings.next_.resize(rings.rings_.size());
  return rings;
}

DaemonRings::~DaemonRings() {
  for (const auto memory : memory_) {
    ::munmap(memory.data(), memory.size());
  }
}

std::size_t DaemonRings::read(std::size_t max, const std::function<void(Record)>& take) {
  std::size_t count = 0;
  for (; count < max; ++count) {
    std::optional<Record>* oldest = nullptr;
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (!next_[i]) {
        next_[i] = rings_[i].next();
      }
      if (next_[i] && (oldest == nullptr || next_[i]->head.time < (*oldest)->head.time)) {
        oldest = &next_[i];
      }
    }
    if (oldest == nullptr) {
      break;
    }
    take(std::move(**oldest));
    oldest->reset();
  }
  return count;
}

std::uint64_t DaemonRings::missed() const {
  std::uint64_t missed = 0;
  for (const RingReader& ring : rings_) {
    missed += ring.missed();
  }
  return missed;
}

bool DaemonRings::gone() const {
  pollfd waiting{.fd = connection_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) > 0;
}

}  // namespace uroce::capture
