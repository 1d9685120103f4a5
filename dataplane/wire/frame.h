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

// Why a frame is sent, for captures.
struct SentFor {
  // In the order of abi::CaptureCause, which is the same list.
  enum class Cause : std::uint8_t {
    kControl,
    kNew,
    kGoBack,
    kSelective,
    kResponse,
    kAcknowledgement
  };
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
  // The frame has no ICRC and needs none, since nothing between its two ends can change a byte.
  // Ports for which that holds set it in the empty frames that they allocate and in received ones.
  bool icrc_left_out = false;
  std::uint32_t capture_serial = 0;  // of a received frame that a capture was told of; 0: none was
  // Received frames of some ports: all bytes of the frame, in memory that another process may write
  // to. Then `data` has only the first kHeadBytes, which nobody else changes, and the payload of
  // `packet` is in `lent`. gather() copies the rest to `data`. nullptr: `data` has the whole frame,
  // as is always the case for frames up to kHeadBytes.
  const std::byte* lent = nullptr;
  SentFor sent_for;
  void* buffer = nullptr;  // the port's own handle (an rte_mbuf, for instance)
  Packet packet;           // filled by parse()
};

// Makes a frame contiguous. Its payload stays where parse() found it.
inline void gather(Frame& frame) {
  if (frame.lent != nullptr) {
    std::memcpy(frame.data + Frame::kHeadBytes, frame.lent + Frame::kHeadBytes,
                frame.length - Frame::kHeadBytes);
    frame.lent = nullptr;
  }
}

}  // namespace uroce
