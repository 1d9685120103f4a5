#include "apps/capture/record.h"

#include <gtest/gtest.h>

#include "dataplane/wire/drop.h"
#include "tests/wire/sample.h"

namespace uroce::capture {
namespace {

Record of_frame(abi::CaptureKind kind) {
  Path path;
  path.source_gid = *parse_ip("10.0.0.1");
  path.destination_gid = *parse_ip("10.0.0.2");
  Headers headers;
  headers.dest_qpn = 22;
  test::OwnedFrame frame;
  test::build(frame, path, headers, test::Bytes(64), 1);
  Record record;
  record.head.kind = kind;
  record.head.qpn = kind == abi::CaptureKind::kSent ? 17 : 0;
  record.head.frame_length = frame.frame.length;
  record.bytes = {frame.bytes().begin(), frame.bytes().end()};
  return record;
}

TEST(CaptureFilter, ByDeviceQueuePairPeerAndFate) {
  const Record sent = of_frame(abi::CaptureKind::kSent);
  Record dropped = of_frame(abi::CaptureKind::kReceived);
  dropped.dropped = 1;
  EXPECT_TRUE(is_wanted(sent, {}));
  EXPECT_FALSE(is_wanted(sent, {.port = 1}));
  for (const std::uint32_t qpn : {17U, 22U}) {
    EXPECT_TRUE(is_wanted(sent, {.qpn = qpn})) << "sent by it, or addressed to it";
  }
  EXPECT_FALSE(is_wanted(sent, {.qpn = 18}));
  EXPECT_TRUE(is_wanted(sent, {.peer = parse_ip("10.0.0.2")}));
  EXPECT_FALSE(is_wanted(sent, {.peer = parse_ip("10.0.0.1")}));
  EXPECT_TRUE(is_wanted(dropped, {.peer = parse_ip("10.0.0.1")}));
  EXPECT_TRUE(is_wanted(dropped, {.drops = true}));
  EXPECT_FALSE(is_wanted(sent, {.drops = true}));
}

TEST(CaptureFilter, FramesThatAreNotRoceHaveNoQueuePair) {
  Record record = of_frame(abi::CaptureKind::kReceived);
  record.bytes.resize(20);
  record.head.frame_length = 20;
  EXPECT_TRUE(is_wanted(record, {}));
  EXPECT_FALSE(is_wanted(record, {.qpn = 22}));
}

TEST(Comment, SaysWhyItWasSentOrDropped) {
  Record sent = of_frame(abi::CaptureKind::kSent);
  sent.head.work_request = 5;
  sent.head.why = static_cast<std::uint8_t>(abi::CaptureCause::kNew);
  EXPECT_EQ(comment_of(sent), "QP 17, work request 5: sent");
  sent.head.why = static_cast<std::uint8_t>(abi::CaptureCause::kSelective);
  EXPECT_NE(comment_of(sent).find("work request 5: sent again alone"), std::string::npos);
  Record received = of_frame(abi::CaptureKind::kReceived);
  EXPECT_EQ(comment_of(received), "received");
  received.dropped = static_cast<std::uint8_t>(Drop::kBadIcrc);
  EXPECT_EQ(comment_of(received), "dropped, bad_icrc: invariant CRC is wrong");
  received.dropped = 255;  // no such reason
  EXPECT_FALSE(comment_of(received).empty());
}

Record of_failure(abi::WcStatus status, Failure why) {
  Record record;
  record.head.kind = abi::CaptureKind::kFailed;
  record.head.qpn = 17;
  record.head.work_request = 5;
  record.head.why = static_cast<std::uint8_t>(why);
  abi::CaptureFailure failure{};
  failure.status = static_cast<std::uint8_t>(status);
  failure.psn = 7;
  failure.count = 3;
  failure.key = 0x501;
  failure.length = 64;
  failure.address = 0x7f00;
  const auto bytes = std::as_bytes(std::span(&failure, 1));
  record.bytes.assign(bytes.begin(), bytes.end());
  return record;
}

TEST(FailedCompletion, IsNamedAsInErrors) {
  const Record record = of_failure(abi::WcStatus::kRemAccessErr, Failure::kNakRemoteAccess);
  EXPECT_EQ(failed_completion(record),
            "QP 17: RDMA WRITE with wr_id 0x5 failed with remote access error: the peer answered "
            "NAK: remote access error (PSN 7, key 0x501, 64 bytes at 0x7f00)");
}

// Completions after a failed one are flushed, which isn't another failure; nor is an error at the
// peer that no completion here reports.
TEST(FailedCompletion, FlushedOnesDontCount) {
  EXPECT_FALSE(failed_completion(of_failure(abi::WcStatus::kWrFlushErr, Failure::kFlushed)));
  EXPECT_FALSE(failed_completion(of_failure(abi::WcStatus::kSuccess, Failure::kRemoteKey)));
  EXPECT_FALSE(failed_completion(of_frame(abi::CaptureKind::kSent)));
  Record cut = of_failure(abi::WcStatus::kRemAccessErr, Failure::kNakRemoteAccess);
  cut.bytes.pop_back();
  EXPECT_FALSE(failed_completion(cut));
}

TEST(OfQueuePair, MatchesWhatItSendsAndReceives) {
  const Record sent = of_frame(abi::CaptureKind::kSent);
  EXPECT_TRUE(is_of_queue_pair(sent, 17));
  EXPECT_FALSE(is_of_queue_pair(sent, 22));
  EXPECT_TRUE(is_of_queue_pair(of_frame(abi::CaptureKind::kReceived), 22));
}

}  // namespace
}  // namespace uroce::capture
