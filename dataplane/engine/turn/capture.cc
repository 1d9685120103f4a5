#include "dataplane/engine/turn/capture.h"

#include <algorithm>
#include <cstring>

namespace uroce {
namespace {

constexpr std::uint64_t kAlignment = 8;

using Cause = SentFor::Cause;
constexpr bool same(Cause ours, abi::CaptureCause theirs) {
  return static_cast<unsigned>(ours) == static_cast<unsigned>(theirs);
}
static_assert(same(Cause::kControl, abi::CaptureCause::kControl) &&
              same(Cause::kNew, abi::CaptureCause::kNew) &&
              same(Cause::kGoBack, abi::CaptureCause::kGoBack) &&
              same(Cause::kSelective, abi::CaptureCause::kSelective) &&
              same(Cause::kResponse, abi::CaptureCause::kResponse) &&
              same(Cause::kAcknowledgement, abi::CaptureCause::kAcknowledgement));

}  // namespace

CaptureWriter::CaptureWriter(std::span<std::byte> memory, std::uint32_t snap)
    : control_(*reinterpret_cast<abi::CaptureControl*>(memory.data())),
      ring_(memory.data() + abi::kCaptureRingOffset),
      size_(memory.size() - abi::kCaptureRingOffset),
      snap_(std::min(snap, abi::kCaptureSnapMax)) {}

void CaptureWriter::received(const Frame& frame, std::uint16_t port, std::uint32_t serial,
                             Time now) {
  abi::CaptureRecord record{};
  record.time = now;
  record.frame_length = frame.length;
  record.kept_length = kept_of(frame);
  record.serial = serial;
  record.port = port;
  record.kind = abi::CaptureKind::kReceived;
  put(record, frame.data);
}

void CaptureWriter::sent(const Frame& frame, std::uint16_t port, Time now) {
  abi::CaptureRecord record{};
  record.time = now;
  record.work_request = frame.sent_for.work_request;
  record.frame_length = frame.length;
  record.kept_length = kept_of(frame);
  record.qpn = frame.sent_for.qpn;
  record.port = port;
  record.kind = abi::CaptureKind::kSent;
  record.why = static_cast<std::uint8_t>(frame.sent_for.cause);
  put(record, frame.data);
}

void CaptureWriter::dropped(const Frame& frame, std::uint8_t reason, Time now) {
  abi::CaptureRecord record{};
  record.time = now;
  record.serial = frame.capture_serial;
  record.port = frame.port;
  record.kind =
      frame.capture_serial != 0 ? abi::CaptureKind::kLateDrop : abi::CaptureKind::kDropped;
  record.frame_length = frame.capture_serial != 0 ? 0 : frame.length;
  record.kept_length = frame.capture_serial != 0 ? 0 : kept_of(frame);
  record.why = reason;
  put(record, frame.data);
}

void CaptureWriter::failed(const FailureReport& report, std::uint16_t port, Time now) {
  const abi::CaptureFailure failure{.address = report.address,
                                    .length = report.length,
                                    .limit = report.limit,
                                    .psn = report.psn,
                                    .count = report.count,
                                    .key = report.key,
                                    .status = static_cast<std::uint8_t>(report.status),
                                    .subject = static_cast<std::uint8_t>(report.subject),
                                    .opcode = report.opcode,
                                    .reserved = 0};
  abi::CaptureRecord record{};
  record.time = now;
  record.work_request = report.wr_id;
  record.qpn = report.qpn;
  record.port = port;
  record.kind = abi::CaptureKind::kFailed;
  record.why = static_cast<std::uint8_t>(report.failure);
  record.frame_length = record.kept_length = sizeof(failure);
  put(record, reinterpret_cast<const std::byte*>(&failure));
}

// The reader's index determines how much of the ring is free; with an invalid one, nothing is.
void CaptureWriter::put(abi::CaptureRecord record, const std::byte* bytes) {
  const std::uint64_t length =
      (sizeof(record) + record.kept_length + kAlignment - 1) / kAlignment * kAlignment;
  record.length = static_cast<std::uint32_t>(length);
  const std::uint64_t used = head_ - control_.tail.load(std::memory_order_acquire);
  if (used > size_ || size_ - used < length) {
    control_.missed.store(++missed_, std::memory_order_relaxed);
    return;
  }
  const std::uint64_t begun = head_;
  copy(&record, sizeof(record));
  copy(bytes, record.kept_length);
  head_ = begun + length;
  control_.head.store(head_, std::memory_order_release);
}

void CaptureWriter::copy(const void* from, std::size_t length) {
  if (length == 0) {
    return;  // memcpy requires a valid destination even for no bytes
  }
  const std::uint64_t at = head_ & (size_ - 1);
  const std::size_t first = std::min<std::uint64_t>(length, size_ - at);
  std::memcpy(ring_ + at, from, first);
  std::memcpy(ring_, static_cast<const std::byte*>(from) + first, length - first);
  head_ += length;
}

}  // namespace uroce
