#pragma once

// The sending end of one queue of a udp port: consecutive frames to one destination are sent with
// one system call (UDP_SEGMENT), for speed.
//
// Its worker only.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dataplane/port/queue_counters.h"
#include "dataplane/wire/datagram.h"

namespace uroce {

class UdpSender {
 public:
  // Per system call: the kernel's limit before Linux 6.9, and the most that fit into an IP packet.
  static constexpr std::uint32_t kSegmentsMax = 64;
  static constexpr std::size_t kJoinedBytesMax = 65'000;

  // REQUIRES: 1 <= segments_max <= kSegmentsMax.
  explicit UdpSender(std::uint32_t segments_max) : segments_max_(segments_max) {}

  // Frames with this source address leave through this socket. `scope`: index of its interface.
  void add(int descriptor, const Gid& address, std::uint32_t scope) {
    sources_.push_back({descriptor, address, scope});
  }

  void remove(const Gid& address) {
    std::erase_if(sources_, [&](const Source& source) { return source.address == address; });
  }

  // Whether a call has failed since the last check: then the sockets' error queues may have the
  // reason.
  [[nodiscard]] bool failed() { return std::exchange(failed_, false); }

  // Returns the number of frames, from the first on, that were sent or can't be sent at all
  // (counted as failed). The rest may be retried: the socket is full. The caller keeps the frames.
  std::uint32_t send(std::span<Frame* const> frames, QueueCounters& counters);

 private:
  struct Source {
    int descriptor;
    Gid address;
    std::uint32_t scope;
  };
  enum class Outcome : std::uint8_t { kSent, kFull, kFailed, kNotJoined };

  std::uint32_t send_some(std::span<Frame* const> frames, QueueCounters& counters);
  [[nodiscard]] const Source* source_of(const Gid& address) const;
  Outcome send_joined(std::span<Frame* const> frames, std::span<const Datagram> datagrams);

  std::uint32_t segments_max_;
  std::vector<Source> sources_;
  IdChanges id_changes_;
  bool failed_ = false;
};

}  // namespace uroce
