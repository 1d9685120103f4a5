#pragma once

// A capture taken apart: for each queue pair in it that was asked something, the requests that it
// got and, on reliable connections, the answers that it gave.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/replay/capture_file.h"
#include "dataplane/qp/attributes.h"
#include "dataplane/wire/frame.h"

namespace uroce::replay {

using Bytes = std::vector<std::byte>;

// A frame of our own memory, parsed. `frame` points into `bytes`, so it stays where it is.
struct ParsedFrame {
  explicit ParsedFrame(std::span<const std::byte> from);
  ParsedFrame(const ParsedFrame&) = delete;
  ParsedFrame& operator=(const ParsedFrame&) = delete;

  [[nodiscard]] const Packet& packet() const { return frame.packet; }
  // Whether it parsed, and asks a queue pair for something.
  [[nodiscard]] bool request() const;
  [[nodiscard]] bool answer() const;

  Bytes bytes;
  Frame frame;
  Drop drop;  // kNone: it parsed
};
using ParsedFrames = std::vector<std::unique_ptr<ParsedFrame>>;

[[nodiscard]] ParsedFrames parse_all(std::span<const CapturedFrame> captured);

// Records between a request and what belongs to it: a limit on looking through a long capture.
inline constexpr std::size_t kOutstandingMax = 4'096;

struct Flow {
  struct Record {
    bool request = false;   // to the queue pair; else from it
    std::size_t frame = 0;  // index in the capture
    const Packet* packet = nullptr;
  };

  QpType type = QpType::kRc;
  Path path;  // as the responder has it: from itself to its peer
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;  // 0: it never answered
  std::uint32_t mtu = 1024;
  std::vector<Record> records;

  [[nodiscard]] std::string name() const;
};

// RC, UC and UD; datagrams of a queue pair are one flow, whoever sent them. Not QP1 and multicast.
[[nodiscard]] std::vector<Flow> flows_of(const ParsedFrames& frames);

[[nodiscard]] EtherAddress destination_mac(const ParsedFrame& frame);
[[nodiscard]] std::uint16_t vlan_of(const ParsedFrame& frame);  // the whole tag; 0: untagged
[[nodiscard]] inline std::uint16_t vlan_id(std::uint16_t tag) {
  return static_cast<std::uint16_t>(tag & kVlanIdMask);
}
[[nodiscard]] bool is_atomic(const Packet& packet);
[[nodiscard]] bool is_nak(const Packet& packet, Nak reason);
[[nodiscard]] bool is_rnr_nak(const Packet& packet);

}  // namespace uroce::replay
