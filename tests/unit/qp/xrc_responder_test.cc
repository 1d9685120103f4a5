// XRC requests that wait for memory, which the conformance corpus can't express: memory is a fake
// that returns kNotResident.

#include <gtest/gtest.h>

#include <array>

#include "tests/qp/rig.h"
#include "tests/unit/qp/fake_memory.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kOtherSrqn = 0x34;
constexpr std::uint32_t kEntries = 8;
constexpr std::uint32_t kSges = 2;

class XrcParked : public testing::Test {
 protected:
  XrcParked() {
    rig_.xrc_domain.add({.number = kOtherSrqn,
                         .pd = QpRig::kPd,
                         .queue = &other_queue_,
                         .completions = &other_cq_});
    rig_.receives.post_receive(1, std::array{sge()});
    other_receives_.post_receive(2, std::array{sge()});
  }
  ~XrcParked() override { missing = nullptr; }
  [[nodiscard]] abi::Sge sge() const {
    return {reinterpret_cast<std::uint64_t>(memory_.data()), 64, 1};
  }
  Step send(std::uint32_t srqn) {
    return rig_.receive({.opcode = Opcode::kXrcSendOnly, .psn = 100, .xrc_srqn = srqn},
                        pattern(1, 8));
  }

  QpRig rig_{{.type = QpType::kXrcRecv}};
  WorkRing other_receives_{kEntries, abi::recv_stride(kSges)};
  CompletionRing other_completions_{kEntries};
  CompletionQueue other_cq_{{.handle = 4,
                             .control = &other_completions_.control,
                             .entries = other_completions_.entries.data(),
                             .entry_count = kEntries,
                             .event_cookie = 4}};
  ReceiveQueue other_queue_{{.handle = 5,
                             .control = &other_receives_.control,
                             .entries = other_receives_.entries.data(),
                             .entry_count = other_receives_.entry_count,
                             .stride = other_receives_.stride,
                             .sge_max = kSges,
                             .users = ReceiveQueue::Users::kOneWorker}};
  Bytes memory_ = Bytes(64);
};

// The parked request took a receive of the first SRQ and was dropped; its retransmission, with the
// same PSN, names the other SRQ.
TEST_F(XrcParked, ARetransmissionKeepsToItsSrq) {
  missing = [](std::uint64_t) { return true; };
  EXPECT_EQ(send(QpRig::kSrqn), Step::kParked);
  missing = nullptr;
  EXPECT_EQ(send(kOtherSrqn), Step::kDone);
  EXPECT_EQ(rig_.qp().state(), QpState::kErr);
  EXPECT_FALSE(other_completions_.poll());
  const auto failed = rig_.receive_completions.poll();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->wr_id, 1U);
  EXPECT_EQ(failed->status, abi::WcStatus::kRemInvReqErr);
}

TEST_F(XrcParked, ARetransmissionIsReceived) {
  missing = [](std::uint64_t) { return true; };
  EXPECT_EQ(send(QpRig::kSrqn), Step::kParked);
  missing = nullptr;
  EXPECT_EQ(send(QpRig::kSrqn), Step::kDone);
  const auto received = rig_.receive_completions.poll();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->status, abi::WcStatus::kSuccess);
}

}  // namespace
}  // namespace uroce::test
