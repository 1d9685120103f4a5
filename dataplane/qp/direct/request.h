#pragma once

// A request as the responder's checks see it, whether it came as a packet in a frame or as a run of
// packets that a local peer would have sent (README.md). Both go through the same functions, so
// that the checks can't differ.
//
// A view: it points to the headers and to the payload's bytes, and lives no longer than those.

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/wire/build.h"
#include "dataplane/wire/packet.h"

namespace uroce {

// Contiguous bytes of a payload. (Without initial values: a list of many is made for each message.)
struct ByteRun {
  const std::byte* start;
  std::uint32_t length;
};

class Request {
 public:
  // One packet, with its payload behind its headers.
  explicit Request(const Packet& from)
      : info(opcode_info(from.opcode)),
        psn(from.psn),
        payload_length(from.payload_length),
        solicited(from.solicited),
        ack_request(from.ack_request),
        packet(&from),
        whole_{from.payload, from.payload_length},
        payload_(&whole_, 1) {}

  // `count` packets of one message, with `length` bytes: `headers` has the first one's PSN, and an
  // opcode that starts and ends a message where they do. Their bytes are still where the sender's
  // program has them.
  Request(const Headers& headers, std::uint32_t count, std::uint32_t length,
          std::span<const ByteRun> runs)
      : info(opcode_info(headers.opcode)),
        psn(headers.psn),
        packets(count),
        payload_length(length),
        solicited(headers.solicited),
        headers_(&headers),
        payload_(runs) {}

  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  const OpcodeInfo& info;
  const std::uint32_t psn;
  const std::uint32_t packets = 1;  // as many PSNs
  const std::uint32_t payload_length;
  const bool solicited;
  const bool ack_request = false;
  // The packet; nullptr: a direct transfer. A direct request is executed as a whole or not at all,
  // in which case it comes again as frames.
  const Packet* const packet = nullptr;

  // In order, and in one run if it came in a frame.
  [[nodiscard]] std::span<const ByteRun> payload() const { return payload_; }

  // The extension headers. REQUIRES: as in Packet.
  [[nodiscard]] Reth reth() const { return headers_ == nullptr ? packet->reth() : headers_->reth; }
  [[nodiscard]] AtomicEth atomic_eth() const {
    return headers_ == nullptr ? packet->atomic_eth() : headers_->atomic_eth;
  }
  [[nodiscard]] std::uint32_t immediate() const {
    return headers_ == nullptr ? packet->immediate() : headers_->immediate;
  }
  [[nodiscard]] std::uint32_t invalidate_rkey() const {
    return headers_ == nullptr ? packet->invalidate_rkey() : headers_->invalidate_rkey;
  }
  [[nodiscard]] std::uint32_t xrc_srqn() const {
    return headers_ == nullptr ? packet->xrc_srqn() : headers_->xrc_srqn;
  }

 private:
  const Headers* headers_ = nullptr;
  ByteRun whole_{};
  std::span<const ByteRun> payload_;
};

}  // namespace uroce
