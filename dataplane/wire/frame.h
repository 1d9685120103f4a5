#pragma once

// A frame: one Ethernet packet in a buffer that a port lent. Frames are what moves through the
// engine's rings.
//
// Ownership: a frame has one owner at a time. Port::rx_burst and Port::allocate give it to the
// caller; Port::tx_burst and Port::release take it back. Its parsed Packet lives inside it and
// points into `data`, so it is valid exactly as long as the frame is held and `data` isn't moved.

#include <cstddef>
#include <cstdint>

#include "dataplane/wire/packet.h"

namespace uroce {

struct Frame {
  std::byte* data = nullptr;   // the first byte of the Ethernet header
  std::uint32_t length = 0;    // bytes, without FCS
  std::uint32_t capacity = 0;  // bytes that may be written from `data`
  std::uint16_t port = 0;      // index of the port whose buffer it is
  bool hairpin = false;       // being sent: a copy of it went round to the port's own receiving end
  bool icrc_checked = false;  // the port that received it found the ICRC right (wire/datagram.h)
  void* buffer = nullptr;     // the port's own handle (an rte_mbuf, for instance)
  Packet packet;              // filled by parse()
};

}  // namespace uroce
