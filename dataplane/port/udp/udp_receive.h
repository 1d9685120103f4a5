#pragma once

// The receiving end of one socket of a udp port: what the kernel joined (UDP_GRO) becomes frames
// again, as they were on the wire.
//
// Its queue's worker only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/queue_counters.h"
#include "dataplane/wire/datagram.h"

struct msghdr;

namespace uroce {

class UdpReceiver {
 public:
  static constexpr std::size_t kJoinedBytesMax = 65'536;

  // `address`: which the socket is bound to.
  UdpReceiver(int descriptor, const Gid& address);

  // Up to `max` frames out of the pool. Fewer than asked: the socket or the pool is empty.
  std::uint32_t take(FramePool& pool, Frame** frames, std::uint32_t max, QueueCounters& counters);

  [[nodiscard]] const Gid& address() const { return path_.destination; }
  // Whether some of what the last call of the kernel gave is left.
  [[nodiscard]] bool holds_any() const { return at_ < length_; }
  // Whether the kernel gave an error instead of datagrams since this was asked last: then the
  // socket's error queue says which.
  [[nodiscard]] bool failed() { return std::exchange(failed_, false); }
  // Frames about errors, as take_udp_errors() has it.
  std::uint32_t take_errors(FramePool& pool, Frame** frames, std::uint32_t max) const;

 private:
  bool fetch(QueueCounters& counters);
  void read_control(msghdr* message, QueueCounters& counters);
  std::uint32_t cut(FramePool& pool, Frame** frames, std::uint32_t max, QueueCounters& counters);

  int descriptor_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t at_ = 0, length_ = 0;  // what is left of the buffer
  std::size_t segment_ = 0;          // bytes of each datagram in it but the last
  DatagramPath path_;
  std::uint16_t source_port_ = 0;
  std::uint32_t overflows_ = 0;  // of the socket, as the kernel last told
  bool failed_ = false;
};

}  // namespace uroce
