// The description of a failure, for a person to read.

#include <gtest/gtest.h>

#include <algorithm>

#include "dataplane/qp/failure_report.h"
#include "tests/qp/rig.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;
using Subject = FailureReport::Subject;

// The only report with this reason.
FailureReport report_of(const Endpoint& end, Failure failure) {
  const auto& reports = end.events.reports;
  const auto is_it = [failure](const FailureReport& one) { return one.failure == failure; };
  EXPECT_EQ(std::count_if(reports.begin(), reports.end(), is_it), 1);
  const auto found = std::find_if(reports.begin(), reports.end(), is_it);
  return found != reports.end() ? *found : FailureReport{};
}

TEST(Report, SaysNothingWhenNothingFails) {
  QpPair pair;
  pair.b.post_recv(1, std::array{pair.b.sge(0, 100)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend), std::array{pair.a.sge(0, 100)});
  pair.exchange();
  EXPECT_TRUE(pair.a.events.reports.empty());
  EXPECT_TRUE(pair.b.events.reports.empty());
}

TEST(Report, NamesTheKeyThatThePeerMayNotUse) {
  QpPair pair;
  abi::SendWr write = rdma_wr(7, WrOpcode::kRdmaWrite, pair.b, 64);
  write.rkey += 1;
  pair.a.post_send(write, std::array{pair.a.sge(0, 100)});
  pair.exchange();

  const FailureReport there = report_of(pair.b, Failure::kRemoteKey);
  EXPECT_EQ(there.subject, Subject::kPeer);
  EXPECT_EQ(there.status, WcStatus::kSuccess) << "no work request of b failed";
  EXPECT_EQ(there.key, write.rkey);
  EXPECT_EQ(there.address, pair.b.address(64));
  EXPECT_EQ(there.length, 100U);
  EXPECT_EQ(there.psn, 100U);
  EXPECT_EQ(there.qpn, 18U);

  const FailureReport here = report_of(pair.a, Failure::kNakRemoteAccess);
  EXPECT_EQ(here.subject, Subject::kSend);
  EXPECT_EQ(here.status, WcStatus::kRemAccessErr);
  EXPECT_EQ(here.wr_id, 7U);
  EXPECT_EQ(here.key, write.rkey);
}

TEST(Report, NamesTheSgeThatCantBeRead) {
  QpPair pair;
  abi::Sge wrong = pair.a.sge(200, 10);
  wrong.lkey += 1;
  pair.b.post_recv(1, std::array{pair.b.sge(0, 100)});
  pair.a.post_send(send_wr(3, WrOpcode::kSend), std::array{pair.a.sge(0, 10), wrong});
  pair.exchange();
  const FailureReport report = report_of(pair.a, Failure::kSendKey);
  EXPECT_EQ(report.status, WcStatus::kLocProtErr);
  EXPECT_EQ(report.key, wrong.lkey);
  EXPECT_EQ(report.address, wrong.address);
  EXPECT_EQ(report.length, 10U);
}

// Its payload is read; only the memory that a result goes to must be writable.
TEST(Report, NamesTheSgeOfAnAtomicWriteThatCantBeRead) {
  QpPair pair({.a = {.access = kAccessRemoteRead}});
  abi::Sge wrong = pair.a.sge(200, 4);
  wrong.lkey += 1;
  pair.a.post_send(rdma_wr(3, WrOpcode::kAtomicWrite, pair.b, 0),
                   std::array{pair.a.sge(0, 4), wrong});
  pair.exchange();
  EXPECT_EQ(report_of(pair.a, Failure::kSendKey).key, wrong.lkey);
}

TEST(Report, SaysWhatAFlushWasToCover) {
  QpPair pair;
  abi::SendWr flush = rdma_wr(7, WrOpcode::kFlush, pair.b, 64);
  flush.rkey += 1;
  flush.flush = {.placement = 1, .selectivity = 0, .length = 4'096};
  pair.a.post_send(flush);
  pair.exchange();
  const FailureReport report = report_of(pair.a, Failure::kNakInvalidRequest);
  EXPECT_EQ(report.address, pair.b.address(64));
  EXPECT_EQ(report.length, 4'096U);
}

TEST(Report, NamesTheRegionAndRangeOfAWindowThatCantBeBound) {
  QpPair pair({.b = {.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessMwBind}});
  abi::SendWr bind = send_wr(7, WrOpcode::kBindMw);
  bind.rkey = *pair.b.keys().windows().add(pair.b.qp().config().pd, WindowType::kType2);
  bind.immediate = bind.rkey + 1;
  bind.remote_address = pair.b.address(pair.b.memory.size());
  bind.bind = {.length = 64, .lkey = pair.b.key(), .access = kAccessRemoteWrite};
  pair.b.post_send(bind);
  pair.exchange();
  const FailureReport report = report_of(pair.b, Failure::kBindRange);
  EXPECT_EQ(report.key, pair.b.key());
  EXPECT_EQ(report.address, bind.remote_address);
  EXPECT_EQ(report.length, 64U);
}

TEST(Report, NamesTheWindowThatCantBeBound) {
  QpPair pair;
  abi::SendWr bind = send_wr(7, WrOpcode::kBindMw);
  bind.rkey = 0x5678;
  bind.bind = {.length = 64, .lkey = pair.b.key(), .access = kAccessRemoteWrite};
  pair.b.post_send(bind);
  pair.exchange();
  EXPECT_EQ(report_of(pair.b, Failure::kBindWindow).key, 0x5678U);
}

TEST(Report, NamesTheKeyThatCantBeInvalidated) {
  QpPair pair;
  abi::SendWr invalidate = send_wr(7, WrOpcode::kLocalInv);
  invalidate.immediate = 0x1234;
  pair.a.post_send(invalidate);
  pair.exchange();
  EXPECT_EQ(report_of(pair.a, Failure::kInvalidateLocal).key, 0x1234U);
}

// A READ is granted, and its region is gone before it is answered.
TEST(Report, NamesTheReadOfAnXrcTargetByItsOwnOpcode) {
  constexpr std::uint64_t kIova = 0x10'0000;
  QpRig rig({.type = QpType::kXrcRecv});
  Bytes memory(64);
  const std::uint32_t key = rig.add_region(memory, kIova, kAccessRemoteRead);
  ASSERT_EQ(rig.receive({.opcode = Opcode::kXrcReadRequest,
                         .psn = 100,
                         .reth = {.address = kIova, .rkey = key, .length = 64},
                         .xrc_srqn = QpRig::kSrqn}),
            Step::kDone);
  rig.remove_region(key);
  rig.transmit();
  ASSERT_FALSE(rig.events.reports.empty());
  EXPECT_EQ(rig.events.reports[0].failure, Failure::kRemoteKey);
  EXPECT_EQ(rig.events.reports[0].opcode, static_cast<std::uint8_t>(Opcode::kXrcReadRequest));
}

TEST(Report, DoesNotBlameAnEmptySge) {
  QpPair pair;
  abi::Sge wrong = pair.a.sge(200, 10);
  wrong.lkey += 1;
  const abi::Sge empty{.address = 1, .length = 0, .lkey = 0xBAD};
  pair.b.post_recv(1, std::array{pair.b.sge(0, 100)});
  pair.a.post_send(send_wr(3, WrOpcode::kSend), std::array{empty, wrong});
  pair.exchange();
  EXPECT_EQ(report_of(pair.a, Failure::kSendKey).key, wrong.lkey);
}

// The SGEs of an XRC receive belong to the protection domain of the SRQ, not of the queue pair.
TEST(Report, NamesTheSgeOfAnXrcReceive) {
  constexpr std::uint64_t kIova = 0x10'0000;
  QpRig rig({.type = QpType::kXrcRecv});
  Bytes memory(64);
  const std::uint32_t key = rig.add_region(memory, kIova, kAccessLocalWrite);
  rig.receives.post_receive(1, std::array{abi::Sge{kIova, 8, key}, abi::Sge{kIova, 8, key + 1}});
  ASSERT_EQ(rig.receive({.opcode = Opcode::kXrcSendOnly, .psn = 100, .xrc_srqn = QpRig::kSrqn},
                        pattern(1, 16)),
            Step::kDone);
  ASSERT_FALSE(rig.events.reports.empty());
  EXPECT_EQ(rig.events.reports[0].failure, Failure::kReceiveKey);
  EXPECT_EQ(rig.events.reports[0].key, key + 1);
}

TEST(Report, SaysHowMuchAReceiveCouldHold) {
  QpPair pair;
  pair.b.post_recv(9, std::array{pair.b.sge(0, 50)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend), std::array{pair.a.sge(0, 60)});
  pair.exchange();
  const FailureReport report = report_of(pair.b, Failure::kReceiveTooShort);
  EXPECT_EQ(report.subject, Subject::kReceive);
  EXPECT_EQ(report.wr_id, 9U);
  EXPECT_EQ(report.length, 60U);
  EXPECT_EQ(report.limit, 50U);
}

TEST(Report, CountsFlushedWork) {
  QpPair pair;
  for (std::uint64_t i = 0; i < 3; ++i) {
    pair.a.post_recv(i, std::array{pair.a.sge(0, 50)});
  }
  pair.a.to_error();
  const FailureReport report = report_of(pair.a, Failure::kFlushed);
  EXPECT_EQ(report.subject, Subject::kReceive);
  EXPECT_EQ(report.count, 3U);
}

}  // namespace
}  // namespace uroce::test
