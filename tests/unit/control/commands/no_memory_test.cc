// Making or destroying an object when memory runs out, at each allocation of the command: the state
// afterwards is as before, and the command can be repeated.

#include <utility>
#include <vector>

#include "control/commands/address_follower.h"
#include "tests/unit/control/commands/no_memory.h"

namespace uroce::control {
namespace {

TEST_F(NoMemoryTest, AQueuePairLeavesNothing) {
  // A session keeps its first memory for rings.
  EXPECT_EQ(program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq)).header.error, 0);
  expect_nothing_left(abi::Command::kCreateQp, program.rc_qp(pd, cq));
}

TEST_F(NoMemoryTest, ACompletionQueueLeavesNothing) {
  abi::CreateCqRequest request{};
  request.entries = 16;
  expect_nothing_left(abi::Command::kCreateCq, request);
}

TEST_F(NoMemoryTest, ASharedReceiveQueueLeavesNothing) {
  expect_nothing_left(abi::Command::kCreateSrq, srq());
}

TEST_F(NoMemoryTest, AnXrcSharedReceiveQueueLeavesNothingInAWorker) {
  const abi::CreateSrqRequest request = xrc_srq(open_xrcd());
  next_srq = rig.card.srqns().take({}).number() + 1;
  expect_nothing_left(abi::Command::kCreateSrq, request);
}

TEST_F(NoMemoryTest, AMemoryWindowLeavesNothing) {
  abi::AllocMwRequest request{};
  request.pd = pd;
  request.type = static_cast<std::uint32_t>(WindowType::kType1);
  expect_nothing_left(abi::Command::kAllocMw, request);
}

// Otherwise what couldn't be destroyed would have to be kept, so that workers have no objects that
// nobody can find.
TEST_F(NoMemoryTest, WhatIsDestroyedNeedsNoMemory) {
  const auto qp = program.ask(abi::Command::kCreateQp, program.rc_qp(pd, cq));
  expect_no_allocation(abi::Command::kDestroyQp, qp.as<abi::CreateQpReply>().handle);
  expect_no_allocation(abi::Command::kDestroyCq, program.make_cq());
  const auto ah = program.ask(abi::Command::kCreateAh, address_handle());
  expect_no_allocation(abi::Command::kDestroyAh, ah.as<abi::HandleReply>().handle);
  const std::uint32_t xrcd = open_xrcd();
  const auto srq = program.ask(abi::Command::kCreateSrq, xrc_srq(xrcd));
  expect_no_allocation(abi::Command::kDestroySrq, srq.as<abi::CreateSrqReply>().handle);
  const auto target = program.ask(abi::Command::kCreateQp, xrc_target(xrcd));
  ASSERT_EQ(target.header.error, 0) << target.message();
  expect_no_allocation(abi::Command::kDestroyQp, target.as<abi::CreateQpReply>().handle);
}

TEST_F(NoMemoryTest, AnXrcReceivingQueuePairLeavesNothing) {
  expect_nothing_left(abi::Command::kCreateQp, xrc_target(open_xrcd()));
}

// In one that is half open, workers would be missing their doorbells.
TEST_F(NoMemoryTest, ADeviceIsOpenAsAWholeOrNotAtAll) {
  enum Became : int { kOpen, kClosed, kHalfOpen, kEndedInATask };
  const auto become = [this](int failing) {
    Program another(rig);
    Device& device = rig.card.devices().front();
    until_failure = failing;
    try {
      const bool well = another.session.open(device).has_value();
      until_failure = -1;
      return well ? kOpen : kHalfOpen;
    } catch (const std::bad_alloc&) {
      until_failure = -1;
    }
    return another.session.device() == nullptr && another.session.open(device) ? kClosed
                                                                               : kHalfOpen;
  };
  int closed = 0;
  for (int failing = 0, became = kHalfOpen; became != kOpen; ++failing) {
    ASSERT_LT(failing, kAllocationsMax);
    became = test::in_a_child(kEndedInATask, [&] { return become(failing); });
    ASSERT_NE(became, kHalfOpen) << "allocation " << failing << " failed";
    closed += became == kClosed ? 1 : 0;
  }
  EXPECT_GT(closed, 0);
}

// The kernel reports a change once.
TEST_F(NoMemoryTest, AddressesOfAnInterfaceAreListedAgain) {
  enum Became : int { kListed, kListedLater, kNeverListed, kEndedInATask };
  const auto become = [this](int failing) {
    auto follower = AddressFollower::open(rig.card, rig.kernel);
    follower->follow(0, "lo");
    until_failure = failing;
    try {
      follower->on_change();
      until_failure = -1;
      return kListed;
    } catch (const std::bad_alloc&) {
      until_failure = -1;
    }
    if (follower->next_check() == kNever) {
      return kNeverListed;
    }
    rig.now = follower->next_check();
    follower->check_again();
    const bool gone = !rig.card.devices().front().gids().owns(*parse_ip("10.0.0.1"));
    return gone && follower->next_check() == kNever ? kListedLater : kNeverListed;
  };
  int listed_later = 0;
  for (int failing = 0, became = kNeverListed; became != kListed; ++failing) {
    ASSERT_LT(failing, kAllocationsMax);
    became = test::in_a_child(kEndedInATask, [&] { return become(failing); });
    ASSERT_NE(became, kNeverListed) << "allocation " << failing << " failed";
    listed_later += became == kListedLater ? 1 : 0;
  }
  EXPECT_GT(listed_later, 0);
}

// As the end of a session does, which can't fail.
TEST(EngineCallTest, CallingAWorkerThatIsAwakeAllocatesNothing) {
  LoopbackPort port(4'200, 1);
  Quiescence quiescence;
  const KeyTable keys(quiescence, 4);
  Engine::Config config;
  config.idle = IdlePolicy::kPoll;
  Engine engine(config, {&port}, keys, quiescence);
  ASSERT_TRUE(engine.start());
  int first = 0, second = 0, third = 0;
  until_failure = kMany;
  engine.call(0, [&first, &second, &third](Worker&) { first = second = third = 1; });
  EXPECT_EQ(std::exchange(until_failure, -1), kMany) << "nothing was allocated";
  EXPECT_EQ(first + second + third, 3);
  engine.stop();
}

TEST(DoorbellSlotsTest, AReturnedSlotIsReusedLate) {
  DoorbellSlots slots;
  for (std::uint32_t slot = 0; slot <= LateNumbers::kQuarantine; ++slot) {
    EXPECT_EQ(slots.take().number(), slot);
  }
  EXPECT_EQ(slots.take().number(), 0U);
}

TEST(DoorbellSlotsTest, ReturningSlotsAllocatesNothing) {
  DoorbellSlots slots;
  std::vector<PooledNumber<DoorbellSlots>> taken(1'000);
  for (PooledNumber<DoorbellSlots>& slot : taken) {
    slot = slots.take();
  }
  until_failure = 0;
  taken.clear();
  EXPECT_EQ(std::exchange(until_failure, -1), 0) << "nothing was allocated";
}

}  // namespace
}  // namespace uroce::control
