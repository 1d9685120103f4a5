#include "apps/capture/record.h"

#include <algorithm>
#include <cstring>

#include "control/reports/error_text.h"
#include "dataplane/wire/frame.h"

namespace uroce::capture {
namespace {

// Of a frame whose headers are there; nothing else of it is looked at.
std::optional<Packet> packet_of(const Record& record) {
  Frame frame;
  std::vector<std::byte> whole = record.bytes;
  whole.resize(std::max<std::size_t>(record.head.frame_length, whole.size()));
  frame.data = whole.data();
  frame.length = static_cast<std::uint32_t>(whole.size());
  frame.capacity = frame.length;
  if (parse_headers(frame) != Drop::kNone) {
    return std::nullopt;
  }
  Packet packet = frame.packet;
  packet.bth = packet.payload = nullptr;  // they die with `whole`
  packet.ip = record.bytes.data() + (frame.packet.ip - whole.data());
  return packet;
}

std::string why_sent(const abi::CaptureRecord& head) {
  const std::string request =
      "QP " + std::to_string(head.qpn) + ", work request " + std::to_string(head.work_request);
  switch (static_cast<abi::CaptureCause>(head.why)) {
    case abi::CaptureCause::kNew:
      return request + ": sent";
    case abi::CaptureCause::kGoBack:
      return request + ": sent again, with all packets after it";
    case abi::CaptureCause::kSelective:
      return request + ": sent again alone: named by a NAK, or unacknowledged";
    case abi::CaptureCause::kResponse:
      return "QP " + std::to_string(head.qpn) + ": answer to a READ or an atomic";
    case abi::CaptureCause::kAcknowledgement:
      return "QP " + std::to_string(head.qpn) + ": acknowledgement, NAK or notification";
    default:
      return "sent by the daemon itself";
  }
}

}  // namespace

bool is_wanted(const Record& record, const CaptureFilter& wanted) {
  if ((wanted.drops && !record.dropped) || (wanted.port && *wanted.port != record.head.port)) {
    return false;
  }
  if (!wanted.qpn && !wanted.peer) {
    return true;
  }
  const auto packet = packet_of(record);
  if (!packet) {
    return false;
  }
  const bool sent = record.head.kind == abi::CaptureKind::kSent;
  const bool of_qp =
      !wanted.qpn || record.head.qpn == *wanted.qpn || packet->dest_qpn == *wanted.qpn;
  const bool of_peer =
      !wanted.peer || (sent ? packet->destination_gid() : packet->source_gid()) == *wanted.peer;
  return of_qp && of_peer;
}

std::string comment_of(const Record& record) {
  if (record.dropped) {
    const auto reason = std::min<std::size_t>(*record.dropped, kDropCount - 1);
    return "dropped, " + std::string(kDropTexts[reason].name) + ": " +
           std::string(kDropTexts[reason].explanation);
  }
  return record.head.kind == abi::CaptureKind::kSent ? why_sent(record.head) : "received";
}

bool is_of_queue_pair(const Record& record, std::uint32_t qpn) {
  if (record.head.kind == abi::CaptureKind::kSent) {
    return record.head.qpn == qpn;
  }
  const auto packet = packet_of(record);
  return packet && packet->dest_qpn == qpn;
}

std::optional<std::string> failed_completion(const Record& record) {
  abi::CaptureFailure failure{};
  if (record.head.kind != abi::CaptureKind::kFailed || record.bytes.size() < sizeof(failure)) {
    return std::nullopt;
  }
  std::memcpy(&failure, record.bytes.data(), sizeof(failure));
  const auto status = static_cast<abi::WcStatus>(failure.status);
  if (status == abi::WcStatus::kSuccess || status == abi::WcStatus::kWrFlushErr) {
    return std::nullopt;
  }
  return control::error_text({.failure = static_cast<Failure>(record.head.why),
                              .subject = static_cast<FailureReport::Subject>(failure.subject),
                              .opcode = failure.opcode,
                              .status = status,
                              .qpn = record.head.qpn,
                              .psn = failure.psn,
                              .count = failure.count,
                              .key = failure.key,
                              .wr_id = record.head.work_request,
                              .address = failure.address,
                              .length = failure.length,
                              .limit = failure.limit});
}

}  // namespace uroce::capture
