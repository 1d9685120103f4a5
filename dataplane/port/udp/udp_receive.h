#pragma once

// The receiving end of one socket of a udp port: splits coalesced datagrams (UDP_GRO) into frames
// again, as they were on the wire. If nothing is coalesced, because the path or the interface
// doesn't support it, a system call receives several datagrams.
//
// Its queue's worker only.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/port/socket_address.h"
#include "dataplane/wire/datagram.h"

namespace uroce {

class UdpReceiver {
 public:
  static constexpr std::size_t kJoinedBytesMax = 65'536;

  // `address`: that the socket is bound to.
  UdpReceiver(int descriptor, const Gid& address);
  UdpReceiver(const UdpReceiver&) = delete;
  UdpReceiver& operator=(const UdpReceiver&) = delete;

  // Receives up to `max` frames from the pool. A discarded message (empty, or too long for a frame)
  // counts as one, so that a flood of those ends the call, too. Otherwise fewer frames than
  // requested mean that the socket or the pool is empty.
  std::uint32_t take(FramePool& pool, Frame** frames, std::uint32_t max, QueueCounters& counters);

  [[nodiscard]] const Gid& address() const { return address_; }
  // Whether messages of the last system call are left.
  [[nodiscard]] bool holds_any() const { return next_ < count_; }
  // Whether the kernel has returned an error instead of datagrams since the last call: then the
  // socket's error queue has the reason.
  [[nodiscard]] bool failed() { return std::exchange(failed_, false); }
  // Frames about errors, see take_udp_errors().
  std::uint32_t take_errors(FramePool& pool, Frame** frames, std::uint32_t max) const;

 private:
  // Messages per call: of coalesced datagrams, which soon fill a burst, and of single ones.
  static constexpr unsigned kJoinedMax = 2;
  static constexpr unsigned kSinglesMax = 16;
  // The distance between two messages' buffers: not a power of two, otherwise all would begin in
  // the same sets of the caches.
  static constexpr std::size_t kStride = kJoinedBytesMax + 1'088;

  // The unread rest of one message of the last call.
  struct Message {
    const std::byte* at = nullptr;
    std::size_t left = 0;
    std::size_t segment = 0;  // bytes of each datagram in it except the last
    DatagramPath path;
    std::uint16_t source_port = 0;
    std::uint16_t ip_id = 0;  // expected of the next datagram in it
  };
  // Buffers for the parts of a message.
  struct Place {
    iovec bytes;
    SocketAddress sender;
    alignas(cmsghdr) std::array<std::byte, 256> control;
  };

  bool fetch(QueueCounters& counters);
  Message read(const msghdr& header, std::size_t length, QueueCounters& counters);
  std::uint32_t cut(FramePool& pool, Frame** frames, std::uint32_t max, QueueCounters& counters);

  int descriptor_;
  Gid address_;
  std::unique_ptr<std::byte[]> buffers_;  // kSinglesMax; untouched parts take no memory
  std::array<Place, kSinglesMax> places_;
  std::array<mmsghdr, kSinglesMax> headers_{};
  std::array<Message, kSinglesMax> messages_;
  std::uint32_t next_ = 0, count_ = 0;  // the unread messages
  bool singles_ = false;                // the last call returned nothing coalesced
  bool drained_ = false;                // and fewer messages than it might have
  std::uint32_t overflows_ = 0;         // SO_RXQ_OVFL, as last reported by the kernel
  bool failed_ = false;
};

}  // namespace uroce
