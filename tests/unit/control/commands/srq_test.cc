// Resizing a shared receive queue that is in use.

#include "abi/cq_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class SrqTest : public ::testing::Test {
 protected:
  SrqTest() {
    program.open();
    abi::CreateSrqRequest request{};
    request.pd = program.make_pd();
    request.max_wr = 4;
    request.max_sge = 2;
    srq = program.ask(abi::Command::kCreateSrq, request).as<abi::CreateSrqReply>().handle;
  }
  Answer resize(std::uint32_t max_wr, bool commit) {
    abi::ResizeSrqRequest request{};
    request.handle = srq;
    request.max_wr = max_wr;
    request.commit = commit ? 1 : 0;
    return program.ask(abi::Command::kResizeSrq, request);
  }
  std::uint32_t max_wr() {
    return program.ask_about(abi::Command::kQuerySrq, srq).as<abi::QuerySrqReply>().max_wr;
  }
  Rig rig;
  Program program{rig};
  std::uint32_t srq = 0;
};

TEST_F(SrqTest, IsResizedInTwoSteps) {
  const Answer prepared = resize(100, false);
  ASSERT_EQ(prepared.header.error, 0) << prepared.message();
  EXPECT_EQ(prepared.as<abi::ResizeSrqReply>().max_wr, 128U);
  EXPECT_GE(prepared.as<abi::ResizeSrqReply>().memory_length, 128U * abi::recv_stride(2));
  ASSERT_EQ(prepared.record.descriptors.size(), 1U);
  EXPECT_EQ(max_wr(), 4U) << "nothing has changed yet";
  const Answer done = resize(0, true);
  EXPECT_EQ(done.header.error, 0) << done.message();
  EXPECT_EQ(max_wr(), 128U);
  EXPECT_EQ(resize(0, true).header.error, EINVAL) << "no prepared ring is left";
}

TEST_F(SrqTest, CantBeResizedBeyondTheLimits) {
  for (const std::uint32_t size : {0U, kWorkRequestsMax + 1}) {
    const Answer refused = resize(size, false);
    EXPECT_EQ(refused.header.error, EINVAL);
    EXPECT_NE(refused.message().find("work requests"), std::string::npos) << refused.message();
  }
  srq = 4711;
  EXPECT_EQ(resize(8, false).header.error, EINVAL);
}

TEST_F(SrqTest, KeepsItsRingWhenItHoldsTooMuch) {
  auto* control =
      reinterpret_cast<abi::RingControl*>(program.session.srqs.find(srq)->memory.data());
  control->producer.value.store(3);
  ASSERT_EQ(resize(2, false).header.error, 0);
  const Answer refused = resize(0, true);
  EXPECT_EQ(refused.header.error, EINVAL);
  EXPECT_NE(refused.message().find("holds 3 work requests"), std::string::npos)
      << refused.message();
  EXPECT_EQ(max_wr(), 4U);
}

}  // namespace
}  // namespace uroce::control
