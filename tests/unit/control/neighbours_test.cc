#include "control/ip/neighbours.h"

#include <gtest/gtest.h>

#include "tests/unit/control/link_addresses.h"

namespace uroce::control {
namespace {

class NeighboursTest : public ::testing::Test {
 protected:
  Neighbours::Answer resolve() { return neighbours.resolve(kTheirIp, now, &mac); }
  // How many questions are asked until nothing is due any more, and when the last was.
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

TEST_F(NeighboursTest, GivesUpInBoundedTimeAndSaysSo) {
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

TEST_F(NeighboursTest, LearnsStrangersOnlyWhenTheyAskForUs) {
  EXPECT_FALSE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  const Gid other = *parse_ip("10.0.0.3");
  EXPECT_FALSE(neighbours.learn(other, kTheirs, now, true));
  EXPECT_EQ(neighbours.resolve(other, now, &mac), Neighbours::Answer::kKnown);
}

// Nobody waits for it; paths follow by Moves.
TEST_F(NeighboursTest, AMoveSettlesNoQuestion) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_FALSE(neighbours.learn(kTheirIp, kOurs, now, false));
  EXPECT_FALSE(neighbours.learn(kTheirIp, kTheirs, now, false));
  EXPECT_EQ(resolve(), Neighbours::Answer::kKnown);
  EXPECT_EQ(mac, kTheirs);
}

TEST_F(NeighboursTest, KnowledgeExpires) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false));
  now += Neighbours::kKnownFor;
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
}

TEST_F(NeighboursTest, IsBoundedAndKeepsWhatIsWaitedFor) {
  EXPECT_EQ(resolve(), Neighbours::Answer::kPending);
  Gid stranger = *parse_ip("10.1.0.0");
  for (std::size_t i = 0; i < 2 * Neighbours::kEntriesMax; ++i) {
    stranger.bytes[14] = static_cast<std::uint8_t>(i >> 8U);
    stranger.bytes[15] = static_cast<std::uint8_t>(i);
    EXPECT_FALSE(neighbours.learn(stranger, kTheirs, now, true));
  }
  EXPECT_TRUE(neighbours.learn(kTheirIp, kOurs, now, false)) << "the question was forgotten";
}

TEST_F(NeighboursTest, NothingIsDueWhenNothingIsKnown) {
  EXPECT_EQ(neighbours.next_deadline(), kNever);
}

}  // namespace
}  // namespace uroce::control
