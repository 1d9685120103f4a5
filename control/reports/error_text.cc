#include "control/reports/error_text.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "abi/names.h"
#include "abi/work_request.h"
#include "dataplane/wire/opcode.h"

namespace uroce::control {
namespace {

std::string_view text_of(abi::WcStatus status) {
  const auto index = static_cast<std::size_t>(status);
  return index < abi::kStatusTexts.size() ? abi::kStatusTexts[index] : "unknown error";
}

std::string_view text_of(abi::WrOpcode opcode) {
  switch (opcode) {
    case abi::WrOpcode::kRdmaWrite:
      return "RDMA WRITE";
    case abi::WrOpcode::kRdmaWriteWithImm:
      return "RDMA WRITE with immediate";
    case abi::WrOpcode::kSend:
      return "SEND";
    case abi::WrOpcode::kSendWithImm:
      return "SEND with immediate";
    case abi::WrOpcode::kRdmaRead:
      return "RDMA READ";
    case abi::WrOpcode::kAtomicCmpAndSwp:
      return "compare and swap";
    case abi::WrOpcode::kAtomicFetchAndAdd:
      return "fetch and add";
    case abi::WrOpcode::kLocalInv:
      return "local invalidate";
    case abi::WrOpcode::kBindMw:
      return "bind of a memory window";
    case abi::WrOpcode::kSendWithInv:
      return "SEND with invalidate";
    case abi::WrOpcode::kFlush:
      return "FLUSH";
    case abi::WrOpcode::kAtomicWrite:
      return "atomic write";
    default:
      return "work request of an unknown kind";
  }
}

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[160];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string subject_of(const FailureReport& report) {
  using Subject = FailureReport::Subject;
  if (report.failure == Failure::kFlushed) {
    return std::to_string(report.count) +
           (report.subject == Subject::kReceive ? " receive" : " send") +
           (report.count == 1 ? " work request" : " work requests");
  }
  if (report.failure == Failure::kSendRing) {
    return "send queue";
  }
  switch (report.subject) {
    case Subject::kSend:
      return std::string(text_of(static_cast<abi::WrOpcode>(report.opcode))) +
             format(" with wr_id 0x%" PRIx64, report.wr_id);
    case Subject::kReceive:
      return format("receive with wr_id 0x%" PRIx64, report.wr_id);
    case Subject::kPeer:
      break;
  }
  const OpcodeInfo& info = opcode_info(static_cast<Opcode>(report.opcode));
  return "the peer's " + (info.name.empty() ? "request" : std::string(info.name));
}

std::string details_of(const FailureReport& report) {
  if (report.failure == Failure::kFlushed) {
    return {};
  }
  std::string details = format("PSN %" PRIu32, report.psn);
  if (report.key != 0) {
    details += format(", key 0x%" PRIx32 ", %" PRIu64 " bytes at 0x%" PRIx64, report.key,
                      report.length, report.address);
  } else if (report.length != 0) {
    details += format(", %" PRIu64 " bytes", report.length);
  }
  if (report.limit != 0) {
    details += format(", the limit is %" PRIu64, report.limit);
  }
  return " (" + details + ")";
}

}  // namespace

std::string error_text(const FailureReport& report) {
  const auto reason = static_cast<std::size_t>(report.failure);
  std::string text = "QP " + std::to_string(report.qpn) + ": " + subject_of(report) +
                     (report.failure == Failure::kFlushed ? " flushed" : " failed");
  if (report.status != abi::WcStatus::kSuccess && report.failure != Failure::kFlushed) {
    text += " with " + std::string(text_of(report.status));
  }
  text += ": ";
  text += reason < kFailureCount ? kFailureTexts[reason].explanation : "for an unknown reason";
  return text + details_of(report);
}

}  // namespace uroce::control
