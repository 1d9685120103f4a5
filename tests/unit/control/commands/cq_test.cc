// Changes to a completion queue: its size and its moderation.

#include "abi/cq_records.h"
#include "tests/unit/control/program.h"

namespace uroce::control {
namespace {

class CqTest : public ::testing::Test {
 protected:
  CqTest() {
    program.open();
    cq = program.make_cq();
  }
  Answer resize(std::uint32_t entries, bool commit) {
    abi::ResizeCqRequest request{};
    request.handle = cq;
    request.entries = entries;
    request.commit = commit ? 1 : 0;
    return program.ask(abi::Command::kResizeCq, request);
  }
  Rig rig;
  Program program{rig};
  std::uint32_t cq = 0;
};

TEST_F(CqTest, IsResizedInTwoSteps) {
  const Answer prepared = resize(100, false);
  ASSERT_EQ(prepared.header.error, 0) << prepared.message();
  EXPECT_EQ(prepared.as<abi::ResizeCqReply>().entries, 128U);
  ASSERT_EQ(prepared.record.descriptors.size(), 1U);
  const Answer done = resize(0, true);
  EXPECT_EQ(done.header.error, 0) << done.message();
  EXPECT_EQ(done.as<abi::ResizeCqReply>().entries, 128U);
  EXPECT_EQ(resize(0, true).header.error, EINVAL) << "no prepared ring is left";
}

TEST_F(CqTest, CantBeResizedBeyondTheLimits) {
  for (const std::uint32_t entries : {0U, kCqesMax + 1}) {
    const Answer answer = resize(entries, false);
    EXPECT_EQ(answer.header.error, EINVAL);
    EXPECT_NE(answer.message().find("entries"), std::string::npos);
  }
}

TEST_F(CqTest, KeepsItsRingWhenItHoldsTooMuch) {
  abi::Cqe cqe{};
  struct Silent final : EventSink {
    void announce(AsyncEvent, std::uint32_t) override {}
  } events;
  CompletionQueue& queue = *program.session.cqs.find(cq)->queue;
  for (int i = 0; i < 3; ++i) {
    (void)queue.push(cqe, false, events);
  }
  ASSERT_EQ(resize(2, false).header.error, 0);
  const Answer refused = resize(0, true);
  EXPECT_EQ(refused.header.error, EINVAL);
  EXPECT_NE(refused.message().find("holds 3 completions"), std::string::npos) << refused.message();
}

TEST_F(CqTest, IsModerated) {
  abi::ModifyCqRequest request{};
  request.handle = cq;
  request.count = 10;
  request.period_us = 50;
  EXPECT_EQ(program.ask(abi::Command::kModifyCq, request).header.error, 0);
  request.handle = 4711;
  EXPECT_EQ(program.ask(abi::Command::kModifyCq, request).header.error, EINVAL);
}

TEST_F(CqTest, UnknownFlagsAreRefused) {
  abi::CreateCqRequest request{};
  request.entries = 1;
  request.flags = abi::kCqIgnoreOverrun;
  EXPECT_EQ(program.ask(abi::Command::kCreateCq, request).header.error, 0);
  request.flags = 0x80;
  EXPECT_EQ(program.ask(abi::Command::kCreateCq, request).header.error, EOPNOTSUPP);
}

}  // namespace
}  // namespace uroce::control
