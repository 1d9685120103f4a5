#pragma once

// Building frames: the inverse of parse(). A FrameTemplate is made once a path; a FrameWriter makes
// one frame from it:
//
//   FrameWriter writer(frame, frame_template, headers, payload_length, ip_id);  // all headers
//   writer.append(bytes, n);  // any number of times: copies and sums
//   writer.finish();          // pad bytes, ICRC, frame.length
//
// Payload of some size is summed while it is copied, so it is read once. What is short (headers,
// small messages, pad bytes) is summed where it lies, in one go, because starting a sum costs more
// than reading a few bytes of the first-level cache again. Into a frame that needs no ICRC
// (Frame::icrc_left_out) bytes are only copied, and zeros stand where it would be.

#include <array>
#include <cstddef>
#include <cstdint>

#include "dataplane/wire/headers.h"
#include "dataplane/wire/opcode.h"
#include "dataplane/wire/path.h"

namespace uroce {

struct Frame;

// The fields of one packet, host order. Which extension headers are written is the opcode's say
// (opcode_info).
struct Headers {
  Opcode opcode = Opcode::kRcSendOnly;
  bool solicited = false;
  bool ack_request = false;
  // MigReq. Without path migration a connection is always in the migrated state, which is 1 on the
  // wire (IBTA vol. 1, 17.2.8); some cards handle packets with 0 on a slow path.
  bool migrated = true;
  bool becn = false;
  bool fecn = false;
  std::uint16_t pkey = 0xFFFF;
  std::uint32_t dest_qpn = 0;
  std::uint32_t psn = 0;
  Reth reth{};
  Aeth aeth{};
  AtomicEth atomic_eth{};
  std::uint64_t atomic_ack = 0;
  std::uint32_t immediate = 0;  // as on the wire (big-endian)
  std::uint32_t invalidate_rkey = 0;
  Deth deth{};
  std::uint32_t xrc_srqn = 0;
  Feth feth{};
};

// Ethernet, VLAN, IP and UDP headers of a path as bytes.
class FrameTemplate {
 public:
  FrameTemplate() = default;
  explicit FrameTemplate(const Path& path);

  // Bytes in front of the BTH: 42 (IPv4) to 66 (IPv6 with VLAN).
  [[nodiscard]] std::uint32_t length() const { return length_; }

 private:
  friend class FrameWriter;
  alignas(16) std::array<std::byte, 80> bytes_{};
  std::uint32_t length_ = 0;
  std::uint32_t ip_offset_ = 0;
  std::uint32_t checksum_base_ = 0;  // IPv4: sum of the header without total length and id
  bool ipv6_ = false;
};

}  // namespace uroce

#include "dataplane/wire/frame_writer.h"  // IWYU pragma: export
