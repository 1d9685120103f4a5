#pragma once

// A frame: one Ethernet packet in a buffer that a port lent. Frames are what moves through the
// engine's rings.
//
// Ownership: a frame has one owner at a time. Port::rx_burst and Port::allocate give it to the
// caller; Port::tx_burst and Port::release take it back. Its parsed Packet lives inside it and
// points into `data`, so it is valid exactly as long as the frame is held and `data` isn't moved.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dataplane/wire/packet.h"

namespace uroce {

// Of a frame being sent, what made it: for whoever looks at a capture.
struct SentFor {
  // In the order of abi::CaptureCause, which is the same list.
  enum class Cause : std::uint8_t { kControl, kNew, kAgain, kHole, kAnswer, kWord };
  std::uint64_t work_request = 0;  // of requests
  std::uint32_t qpn = 0;           // of the queue pair of ours; 0: none
  Cause cause = Cause::kControl;
};

struct Frame {
  static constexpr std::uint32_t kHeadBytes = 128;  // all headers there can be

  std::byte* data = nullptr;   // the first byte of the Ethernet header
  std::uint32_t length = 0;    // bytes, without FCS
  std::uint32_t capacity = 0;  // bytes that may be written from `data`
  std::uint16_t port = 0;      // index of the port whose buffer it is
  bool hairpin = false;       // being sent: a copy of it went round to the port's own receiving end
  bool icrc_checked = false;  // found right: by the port (wire/datagram.h), or by a worker
  // It has no ICRC and needs none, since nothing between its two ends can change a byte. A port
  // that knows that of itself says so of the empty frames that it gives and of those that come.
  bool icrc_left_out = false;
  std::uint32_t capture_serial = 0;  // of a received frame that a capture was told of; 0: none was
  // Of a received frame of some ports: all its bytes, in memory that another process may write to.
  // Then only kHeadBytes of them are at `data`, where nobody else changes them, and the payload of
  // `packet` is there. gather() brings the others to `data`. nullptr: they are there, as in every
  // frame that is no longer than that.
  const std::byte* lent = nullptr;
  SentFor sent_for;
  void* buffer = nullptr;  // the port's own handle (an rte_mbuf, for instance)
  Packet packet;           // filled by parse()
};

// For whoever wants a frame in one piece. Its payload stays where parse() found it.
inline void gather(Frame& frame) {
  if (frame.lent != nullptr) {
    std::memcpy(frame.data + Frame::kHeadBytes, frame.lent + Frame::kHeadBytes,
                frame.length - Frame::kHeadBytes);
    frame.lent = nullptr;
  }
}

}  // namespace uroce
