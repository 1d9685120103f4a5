// Multicast datagrams: which queue pairs get them, through which workers, and what is looped back.

#include "tests/unit/engine/multicast_fixture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <utility>

#include "mmu/proc_mem/proc_mem.h"
#include "mmu/proc_mem/proc_mem_thread.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::test {
namespace {

TEST_F(Multicast, EveryMemberGetsADatagramForTheGroup) {
  given(1);
  Member& first = member(17);
  Member& second = member(18);
  Member& outsider = member(19, false);
  receive("239.1.2.3");
  EXPECT_EQ(first.received(), 1U);
  EXPECT_EQ(second.received(), 1U);
  EXPECT_EQ(outsider.received(), 0U);
  const Bytes expected = pattern(5, 32);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), first.memory.begin() + 40));
}

TEST_F(Multicast, MembersOfAllWorkersGetIt) {
  given(2);
  Member& first = member(16);
  Member& second = member(17);
  Member& third = member(19);
  receive("239.1.2.3");
  EXPECT_EQ(first.received() + second.received() + third.received(), 3U);
}

TEST_F(Multicast, OtherGroupsAndOtherQueuePairsGetNothing) {
  given(1);
  Member& only = member(17);
  receive("239.1.2.4");
  receive("239.1.2.3", 17);
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kNotOurAddress), 2U);
  receive("10.0.0.2");
  EXPECT_EQ(drops(Drop::kUnknownQp), 1U);
}

TEST_F(Multicast, GroupsAreHeardInTheVlansOfThePort) {
  given(1);
  Member& only = member(17);
  receive("239.1.2.3", kMulticastQpn, 5);
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kWrongVlan), 1U);
  workers_[0]->set_addresses(0, {kOurs, {*parse_ip("10.5.0.2"), 5}});
  receive("239.1.2.3", kMulticastQpn, 5);
  EXPECT_EQ(only.received(), 1U);
}

TEST_F(Multicast, AMemberThatLeftGetsNothing) {
  given(1);
  Member& only = member(17);
  workers_[0]->detach(0, kGroup, 17);
  receive("239.1.2.3");
  EXPECT_EQ(only.received(), 0U);
  EXPECT_EQ(drops(Drop::kNotOurAddress), 1U);
}

TEST_F(Multicast, OnlyAMemberWithoutReceivesMissesIt) {
  given(1);
  Member& first = member(17);
  Member& second = member(18);
  for (int i = 0; i < 8; ++i) {
    receive("239.1.2.3");
  }
  EXPECT_EQ(first.received(), 8U);
  first.post_recv(1, std::array{abi::Sge{0x1000, 256, first.key}});
  receive("239.1.2.3");
  EXPECT_EQ(first.received(), 1U);
  EXPECT_EQ(second.received(), 8U);
  EXPECT_EQ(drops(Drop::kNoReceive), 1U);
}

// So that others' work waits no longer for a datagram than for any other kind of work.
TEST_F(Multicast, ALargeGroupIsServedOverSeveralTurns) {
  constexpr std::uint32_t kMembers = 300, kDatagrams = 8;
  static_assert(kMembers * kDatagrams > 2 * kGroupDeliveriesMax);
  given(1);
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    member(100 + i);
  }
  const auto received = [&] {
    std::uint32_t sum = 0;
    for (auto& member : members_) {
      sum += member->received();
    }
    return sum;
  };
  for (std::uint32_t i = 0; i < kDatagrams; ++i) {
    arrive("239.1.2.3");
  }
  workers_[0]->poll(1);
  EXPECT_EQ(received(), kGroupDeliveriesMax);
  EXPECT_EQ(workers_[0]->next_deadline(), 0U);
  EXPECT_TRUE(workers_[0]->poll(1));
  EXPECT_EQ(received(), kGroupDeliveriesMax);
  workers_[0]->poll(1);
  EXPECT_EQ(received(), kMembers * kDatagrams - 2 * kGroupDeliveriesMax);
  EXPECT_EQ(workers_[0]->next_deadline(), kNever);
}

TEST_F(Multicast, DatagramsThatComeTooFastForALargeGroupAreLost) {
  constexpr std::uint32_t kMembers = 600;
  given(1);
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    member(100 + i);
  }
  for (std::uint32_t turn = 0; turn < 16; ++turn) {
    for (std::uint32_t i = 0; i < kTurnBurst; ++i) {
      arrive("239.1.2.3");
    }
    workers_[0]->poll(1);
  }
  EXPECT_GT(drops(Drop::kRingFull), 0U);
  const std::uint64_t lost = drops(Drop::kRingFull);
  settle();
  EXPECT_EQ(drops(Drop::kRingFull), lost);
  // Destroyed with some waiting:
  arrive("239.1.2.3");
  arrive("239.1.2.3");
  workers_[0]->poll(1);
}

// A datagram sent to the sender's own group goes to the other local members, and to the wire once.
TEST_F(Multicast, SentDatagramsLoopBackToOtherMembers) {
  given(1);
  Member& sender = member(17);
  Member& other = member(18);
  send(sender, kGroup);
  EXPECT_EQ(sender.received(), 0U);
  EXPECT_EQ(other.received(), 1U);
  EXPECT_EQ(on_the_wire(), 1U);
}

TEST_F(Multicast, TheSenderIsChargedForEachDelivery) {
  given(1);
  expect_sender_charged();
}

TEST_F(Multicast, TheSenderIsChargedOnALoopbackToo) {
  given(1, true);
  expect_sender_charged();
}

TEST_F(Multicast, WithoutLocalMembersNothingLoopsBack) {
  given(1);
  Member& sender = member(17);
  send(sender, *parse_ip("239.1.2.4"));
  EXPECT_EQ(on_the_wire(), 1U);
  EXPECT_EQ(workers_[0]->counters().rx_frames, 0U);
}

TEST_F(Multicast, WithoutABufferSomeMembersMissIt) {
  given(2);
  Member& first = member(16);
  Member& second = member(17);
  receive_with_the_last_buffer();
  EXPECT_EQ(first.received() + second.received(), 1U);
  EXPECT_EQ(drops(Drop::kNoBuffer), 1U);
}

// A datagram that has to wait for its memory, but gets no buffer to wait in, is lost. Bytes already
// stored for it don't become part of the next one.
TEST_F(Multicast, ADatagramThatFindsNoBufferLeavesNothingBehind) {
  given(1);
  const auto memory = std::make_shared<const UniqueFd>(
      std::move(open_proc_mem(ProgramProcess(::getpid(), ::getuid())).value()));
  const auto program = ProcMemThread::start(memory, {.uid = ::getuid()}).value();
  Member& only = member(17, true, program);
  receive_with_the_last_buffer();
  EXPECT_EQ(drops(Drop::kNoBuffer), 1U);
  HeldUp behind_it(*program);
  behind_it.release();
  settle();
  only.memory.assign(only.memory.size(), std::byte{0});
  receive("239.1.2.3");
  while (only.received() == 0) {
    std::this_thread::yield();
    settle();
  }
  const Bytes expected = pattern(5, 32);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), only.memory.begin() + 40));
}

}  // namespace
}  // namespace uroce::test
