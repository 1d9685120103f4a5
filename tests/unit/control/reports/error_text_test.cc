#include "control/reports/error_text.h"

#include <gtest/gtest.h>

#include "abi/work_request.h"
#include "dataplane/wire/opcode.h"

namespace uroce::control {
namespace {

TEST(ErrorText, DescribesASendRequestWithItsRemoteKey) {
  FailureReport report;
  report.failure = Failure::kNakRemoteAccess;
  report.opcode = static_cast<std::uint8_t>(abi::WrOpcode::kRdmaWrite);
  report.status = abi::WcStatus::kRemAccessErr;
  report.qpn = 17;
  report.psn = 7;
  report.key = 0x501;
  report.address = 0x7f00;
  report.length = 64;
  report.wr_id = 5;
  EXPECT_EQ(error_text(report),
            "QP 17: RDMA WRITE with wr_id 0x5 failed with remote access error: the peer answered "
            "NAK: remote access error (PSN 7, key 0x501, 64 bytes at 0x7f00)");
}

// In the words that programs print for the same status (ibv_wc_status_str).
TEST(ErrorText, NamesAStatusAsRdmaCoreDoes) {
  FailureReport report;
  report.status = abi::WcStatus::kMwBindErr;
  EXPECT_NE(error_text(report).find("failed with memory management operation error:"),
            std::string::npos)
      << error_text(report);
  report.status = abi::WcStatus::kRemAbortErr;
  EXPECT_NE(error_text(report).find("failed with aborted error:"), std::string::npos)
      << error_text(report);
}

TEST(ErrorText, DescribesAPeersRequestByItsOpcode) {
  FailureReport report;
  report.failure = Failure::kOpcodeSequence;
  report.subject = FailureReport::Subject::kPeer;
  report.opcode = static_cast<std::uint8_t>(Opcode::kRcSendMiddle);
  report.qpn = 17;
  report.psn = 7;
  EXPECT_EQ(error_text(report),
            "QP 17: the peer's RC SEND MIDDLE failed: a request packet came out of its place in a "
            "message (PSN 7)");
}

TEST(ErrorText, NamesTheLimit) {
  FailureReport report;
  report.failure = Failure::kReceiveTooShort;
  report.subject = FailureReport::Subject::kReceive;
  report.status = abi::WcStatus::kLocLenErr;
  report.qpn = 17;
  report.length = 60;
  report.limit = 50;
  EXPECT_EQ(error_text(report),
            "QP 17: receive with wr_id 0x0 failed with local length error: the message is longer "
            "than the posted receive buffer (PSN 0, 60 bytes, the limit is 50)");
}

TEST(ErrorText, CountsWhatWasFlushed) {
  FailureReport report;
  report.failure = Failure::kFlushed;
  report.subject = FailureReport::Subject::kReceive;
  report.status = abi::WcStatus::kWrFlushErr;
  report.qpn = 17;
  report.count = 3;
  EXPECT_EQ(error_text(report),
            "QP 17: 3 receive work requests flushed: the queue pair is in the error state");
}

}  // namespace
}  // namespace uroce::control
