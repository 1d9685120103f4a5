#pragma once

// Captures (kCapture): one ring per worker, each in a memfd of its own, into which the worker
// copies packets. The worker writes, one reader reads; what doesn't fit is counted. The daemon
// keeps its own index privately and reads only the reader's index from here, which it clamps.

#include <atomic>
#include <cstdint>

#include "abi/command_records.h"

namespace uroce::abi {

// kCapture: from now on, until the connection ends, each worker copies. Administrators only, and
// one at a time. The answer brings as many descriptors as there are workers.
struct CaptureRequest {
  RequestHeader header;
  std::uint64_t ring_bytes;  // of all workers together; they get equal parts, powers of two
  std::uint32_t snap;        // bytes of a frame, at most
  std::uint32_t reserved;
};
static_assert(sizeof(CaptureRequest) == 40);
struct CaptureReply {
  ReplyHeader header;
  std::uint64_t ring_bytes;  // of each worker's
  std::uint32_t workers;
  std::uint32_t reserved;
};
static_assert(sizeof(CaptureReply) == 288);

inline constexpr std::uint64_t kCaptureRingMin = 64U << 10U;
inline constexpr std::uint64_t kCaptureRingMax = 256U << 20U;  // of one worker
inline constexpr std::uint32_t kCaptureSnapMax = 16'384;
// Where the ring's bytes begin in the memfd.
inline constexpr std::uint64_t kCaptureRingOffset = 4'096;

// Free-running, in bytes. `head` is stored with release behind a whole record, `tail` behind what
// was read.
struct CaptureControl {
  alignas(64) std::atomic<std::uint64_t> head;
  std::atomic<std::uint64_t> missed;  // records that found no room
  alignas(64) std::atomic<std::uint64_t> tail;
};
static_assert(sizeof(CaptureControl) <= kCaptureRingOffset);

enum class CaptureKind : std::uint8_t {
  kReceived,
  kSent,
  kDropped,   // received, and not recorded before
  kLateDrop,  // of the frame with this serial, recorded before: dropped; no bytes
  kFailed,    // a work request, or several that were flushed: a CaptureFailure instead of a frame
};

// Why a packet was sent.
enum class CaptureCause : std::uint8_t {
  kControl,          // the daemon's own: ARP, ICMP, the connection manager
  kNew,              // a request's packet, for the first time
  kGoBack,           // again, with everything after an earlier one
  kSelective,        // again alone: named by a NAK or a report, or unacknowledged (probe)
  kResponse,         // READ response, atomic acknowledgement
  kAcknowledgement,  // ACK, NAK, notification, report
};

// In front of a frame's bytes; records begin at multiples of 8.
struct CaptureRecord {
  std::uint64_t time;          // CLOCK_MONOTONIC, of the worker's turn
  std::uint64_t work_request;  // of kNew, kGoBack, kSelective, kFailed
  std::uint32_t length;        // with this header and padding
  std::uint32_t frame_length;
  std::uint32_t kept_length;  // bytes that follow
  std::uint32_t serial;       // of received frames; 0: none
  std::uint32_t qpn;          // of ours that sent it, or that failed; 0: none
  std::uint16_t port;         // index of the device
  CaptureKind kind;
  std::uint8_t why;  // CaptureCause; of kDropped and kLateDrop the number of the line in drop.def,
                     // of kFailed that in failure.def
};
static_assert(sizeof(CaptureRecord) == 40);

// What else is known of a failure (dataplane/qp/failure_report.h); whole whatever `snap` is.
struct CaptureFailure {
  std::uint64_t address;
  std::uint64_t length;
  std::uint64_t limit;
  std::uint32_t psn;
  std::uint32_t count;
  std::uint32_t key;
  std::uint8_t status;  // WcStatus; 0: there is no completion
  std::uint8_t subject;
  std::uint8_t opcode;
  std::uint8_t reserved;
};
static_assert(sizeof(CaptureFailure) == 40);

}  // namespace uroce::abi
