#include "control/ip/neighbours/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/control/ip/device_fixture.h"
#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

class NeighboursTest : public ::testing::Test {
 protected:
  Neighbours::Answer resolve() { return neighbours.resolve(kTheirIp, now, &mac); }
  // How many requests are sent until nothing is due any more, and when the last one was.
  std::uint32_t ask_until_settled() {
    std::uint32_t asked = 0;
    for (bool settled = false; !settled; now = neighbours.next_deadline()) {
      asked += static_cast<std::uint32_t>(neighbours.due(now, &settled).size());
    }
    return asked;
  }
  Neighbours neighbours;
  Time now = 1000;
  EtherAddress mac;
};

TEST_F(NeighboursTest, AsksAtOnceAndKnowsAfterTheAnswer) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_LE(neighbours.next_deadline(), now);
  bool settled = false;
  EXPECT_EQ(neighbours.due(now, &settled), std::vector<LinkAddress>{kTheirIp});
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kOurs);
}

TEST_F(NeighboursTest, GivesUpInBoundedTimeAndReportsIt) {
  const Time start = now;
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_EQ(ask_until_settled(), Neighbours::kAttemptsMax);
  EXPECT_LE(now - start,
            Neighbours::kAttemptsMax * Neighbours::kAttemptInterval + Neighbours::kUnreachableFor);
  now = start + Neighbours::kAttemptsMax * Neighbours::kAttemptInterval + 1;
  EXPECT_EQ(resolve(), Neighbours::Answer::kUnreachable);
  now += Neighbours::kUnreachableFor;
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending) << "asks again after a while";
}

TEST_F(NeighboursTest, ALateAnswerIsStillTaken) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  const Time start = now;
  ask_until_settled();
  now = start + Neighbours::kAttemptsMax * Neighbours::kAttemptInterval + 1;
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
}

TEST_F(NeighboursTest, LearnsUnknownAddressesOnlyFromRequestsForUs) {
  EXPECT_FALSE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  const Gid other = *parse_ip("10.0.0.3");
  EXPECT_FALSE(neighbours.learn(other, kTheirs, now, true));
  EXPECT_EQ(neighbours.resolve(other, now, &mac), Neighbours::Answer::kKnown);
}

// No request is pending; paths follow by NeighbourMoves.
TEST_F(NeighboursTest, AMoveSettlesNoRequest) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_FALSE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_FALSE(neighbours.learn(kTheirIp, kTheirs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kTheirs);
}

// A neighbour whose last answer is old.
class OldNeighbourTest : public NeighboursTest {
 protected:
  OldNeighbourTest() {
    EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
    EXPECT_TRUE(neighbours.learn(kTheirIp, kTheirs, now, false));
    EXPECT_EQ(neighbours.next_deadline(), kNever) << "nobody asks as long as nobody needs it";
    now += Neighbours::kKnownFor;
    EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
    EXPECT_EQ(mac, kTheirs);
  }
  // The number of requests that are due until `end`, at their times.
  std::size_t ask_until(Time end) {
    std::size_t asked = 0;
    for (; neighbours.next_deadline() <= end; asked += neighbours.due(now, &settled).size()) {
      now = std::max(now, neighbours.next_deadline());
    }
    now = end;
    return asked;
  }
  bool settled = false;
};

TEST_F(OldNeighbourTest, IsAskedAtOnceAndKnownAfterTheAnswer) {
  EXPECT_LE(neighbours.next_deadline(), now);
  EXPECT_EQ(neighbours.due(now, &settled), std::vector<LinkAddress>{kTheirIp});
  EXPECT_FALSE(neighbours.learn(kTheirIp, kOurs, now, false)) << "nobody waits for it";
  EXPECT_EQ(neighbours.next_deadline(), kNever);
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kOurs);
}

// A peer whose machine swaps for some seconds stays reachable.
TEST_F(OldNeighbourTest, IsUsedWhileItIsAsked) {
  const Time last = now + Neighbours::kConfirmingFor - 1;
  EXPECT_EQ(ask_until(last), Neighbours::kConfirmAttemptsMax);
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kTheirs);
  EXPECT_FALSE(neighbours.learn(kTheirIp, kTheirs, now, false));
  now += Neighbours::kKnownFor - 1;
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(neighbours.next_deadline(), kNever) << "its answer counts as any other";
}

TEST_F(OldNeighbourTest, IsAskedAnewOnceItHasNotAnswered) {
  ask_until(now + Neighbours::kConfirmingFor);
  EXPECT_FALSE(settled) << "nobody waits for it";
  EXPECT_EQ(neighbours.next_deadline(), kNever);
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  const Time unreachable = now + Neighbours::kAttemptsMax * Neighbours::kAttemptInterval;
  EXPECT_EQ(ask_until(unreachable), Neighbours::kAttemptsMax);
  EXPECT_TRUE(settled);
  EXPECT_EQ(resolve(), Neighbours::Answer::kUnreachable);
}

// Behind the link there may be another host.
TEST_F(OldNeighbourTest, IsNotUsedOnceTheLinkHasChanged) {
  neighbours.forget_answers(now);
  EXPECT_EQ(neighbours.next_deadline(), kNever);
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_EQ(neighbours.due(now, &settled), std::vector<LinkAddress>{kTheirIp});
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kOurs);
}

TEST_F(NeighboursTest, IsBoundedAndKeepsPendingRequests) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  Gid stranger = *parse_ip("10.1.0.0");
  for (std::size_t i = 0; i < 2 * Neighbours::kEntriesMax; ++i) {
    stranger.bytes[14] = static_cast<std::uint8_t>(i >> 8U);
    stranger.bytes[15] = static_cast<std::uint8_t>(i);
    EXPECT_FALSE(neighbours.learn(stranger, kTheirs, now, true));
  }
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false)) << "the request was forgotten";
}

// An unused address of the link.
Gid nobody(std::size_t number) {
  Gid gid = *parse_ip("fd00::");
  gid.bytes[13] = static_cast<std::uint8_t>(number >> 16U);
  gid.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  gid.bytes[15] = static_cast<std::uint8_t>(number);
  return gid;
}

class NeighboursFlood : public NeighboursTest {
 protected:
  // How many requests an asker may have pending.
  std::size_t ask_all(Neighbours::Asker asker) {
    std::size_t asked = 0;
    while (neighbours.resolve(nobody(next_++), now, &mac, asker) == Neighbours::Answer::kPending) {
      ++asked;
    }
    return asked;
  }
  // The same for many askers together.
  std::size_t ask_all() {
    constexpr uid_t kAskers = 100;
    std::size_t asked = ask_all(Neighbours::kDaemon);
    for (uid_t asker = 1; asker < kAskers; ++asker) {
      asked += ask_all(User{asker});
    }
    return asked;
  }

 private:
  std::size_t next_ = 0;
};

constexpr std::size_t kUnansweredMax = Neighbours::kUnansweredMax;

TEST_F(NeighboursFlood, UnansweredRequestsLeaveHalfToKnownNeighbours) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(ask_all(), kUnansweredMax);
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  for (bool settled = false; !settled; now = neighbours.next_deadline()) {
    EXPECT_LE(neighbours.due(now, &settled).size(), kUnansweredMax);
  }
  EXPECT_EQ(ask_all(), 0U) << "the earlier requests are still unanswered";
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  bool settled = false;
  EXPECT_TRUE(neighbours.due(now, &settled).empty());
  EXPECT_EQ(ask_all(), kUnansweredMax) << "they are forgotten after a while";
}

TEST_F(NeighboursFlood, AnAskerGetsAtMostHalfOfWhatIsFree) {
  constexpr User kGreedy{1}, kAnother{2};
  EXPECT_EQ(ask_all(kGreedy), kUnansweredMax / 2);
  EXPECT_EQ(ask_all(kAnother), kUnansweredMax / 4);
  EXPECT_EQ(ask_all(kGreedy), 0U);
  neighbours.learn(nobody(0), kTheirs, now, false);  // one of the first asker's
  EXPECT_EQ(ask_all(kAnother), 1U) << "half of what was freed, rounded up";
  EXPECT_EQ(neighbours.resolve(nobody(0), now, &mac, kAnother), Neighbours::Answer::kKnown);
}

TEST_F(NeighboursFlood, ForgettingAnswersKeepsTheCountOfRequests) {
  constexpr User kAsker{1};
  EXPECT_EQ(ask_all(kAsker), kUnansweredMax / 2);
  neighbours.forget_answers(now);
  EXPECT_EQ(ask_all(kAsker), 0U) << "they are repeated";
  ask_until_settled();
  neighbours.forget_answers(now);
  EXPECT_EQ(ask_all(kAsker), kUnansweredMax / 2) << "nobody waits for them any more";
}

// A neighbour that has answered before takes no room in the asker's share, nor in anybody's.
TEST_F(NeighboursFlood, KnownNeighboursAreAskedAgain) {
  constexpr User kAsker{1};
  EXPECT_EQ(neighbours.resolve(kTheirIp, now, &mac, kAsker), Neighbours::Answer::kPending);
  neighbours.learn(kTheirIp, kTheirs, now, false);
  now += Neighbours::kKnownFor;
  EXPECT_EQ(ask_all(kAsker), kUnansweredMax / 2);
  EXPECT_EQ(neighbours.resolve(kTheirIp, now, &mac, kAsker), Neighbours::Answer::kKnown);
  EXPECT_EQ(ask_all(User{2}), kUnansweredMax / 4) << "it is nobody's request";
  neighbours.learn(kTheirIp, kTheirs, now, false);
  EXPECT_EQ(ask_all(kAsker), 0U);
}

TEST_F(NeighboursFlood, AfterALinkChangeKnownNeighboursAreAskedBeyondTheShare) {
  constexpr User kAsker{1};
  EXPECT_EQ(neighbours.resolve(kTheirIp, now, &mac, kAsker), Neighbours::Answer::kPending);
  neighbours.learn(kTheirIp, kTheirs, now, false);
  EXPECT_EQ(ask_all(kAsker), kUnansweredMax / 2);
  neighbours.forget_answers(now);
  EXPECT_EQ(neighbours.resolve(kTheirIp, now, &mac, kAsker), Neighbours::Answer::kPending);
  neighbours.learn(kTheirIp, kTheirs, now, false);
  EXPECT_EQ(neighbours.resolve(kTheirIp, now, &mac, kAsker), Neighbours::Answer::kKnown);
  EXPECT_EQ(ask_all(kAsker), 0U);
}

// Old answers are dropped for new ones as others are: the cache stays within its bounds.
TEST_F(NeighboursFlood, NeighboursThatAreAskedAgainMakeRoom) {
  for (std::size_t i = 0; i < Neighbours::kEntriesMax; ++i) {
    EXPECT_FALSE(neighbours.learn(nobody(i), kTheirs, now, true));
  }
  now += Neighbours::kKnownFor;
  for (std::size_t i = 0; i < Neighbours::kEntriesMax; ++i) {
    EXPECT_EQ(neighbours.resolve(nobody(i), now, &mac), Neighbours::Answer::kKnown);
  }
  bool settled = false;
  EXPECT_EQ(neighbours.due(now, &settled).size(), Neighbours::kEntriesMax);
  EXPECT_FALSE(neighbours.learn(kTheirIp, kTheirs, now, true));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  now += Neighbours::kConfirmInterval;
  EXPECT_EQ(neighbours.due(now, &settled).size(), Neighbours::kEntriesMax - 1);
}

// Two hosts that have worked together for long: one pauses for some seconds.
TEST_F(DeviceTest, AKnownPeerThatIsSilentForSecondsStaysReachable) {
  device.on_frame(build_arp_request(kTheirs, kTheirIp, *parse_ip("10.0.0.1")), now);
  now += Neighbours::kKnownFor + 1 * kNanosecondsPerSecond;
  sent.clear();
  const Time silent_until = now + 5 * kNanosecondsPerSecond;
  while (now < silent_until) {
    const auto answer = device.resolve(kTheirIp, now, &mac);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(*answer, Device::Resolution::kDone);
    EXPECT_EQ(mac, kTheirs);
    EXPECT_FALSE(device.on_time(now));
    ASSERT_NE(device.next_deadline(), kNever) << "it is asked again";
    now = device.next_deadline();
  }
  EXPECT_EQ(last_arp().target, kTheirIp);
  device.on_frame(build_arp_reply(*parse_ethernet(sent.back()), last_arp(), kTheirs), now);
  EXPECT_EQ(device.next_deadline(), kNever);
}

TEST_F(NeighboursTest, NothingIsDueWhenNothingIsKnown) {
  EXPECT_EQ(neighbours.next_deadline(), kNever);
}

}  // namespace
}  // namespace uroce::control
