#include "control/ip/neighbours/neighbour_moves.h"

#include <gtest/gtest.h>

#include "tests/unit/control/ip/link_addresses.h"

namespace uroce::control {
namespace {

constexpr EtherAddress mac_of(std::uint8_t last) { return {{2, 0, 0, 0, 1, last}}; }
const LinkAddress kPeer(kTheirIp);

TEST(NeighbourMoves, TheFirstIsFollowedAtOnce) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  EXPECT_EQ(moves.next_deadline(), kNever);
  moves.announced(kPeer, mac_of(2));
  EXPECT_LE(moves.next_deadline(), Time{1000});
  const auto moved = moves.due(1000);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].mac, mac_of(2));
  moves.followed(1000, 1000);
  EXPECT_EQ(moves.next_deadline(), kNever);
}

TEST(NeighbourMoves, WhatIsNotFollowedIsDueAgain) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  EXPECT_EQ(moves.due(1000).size(), 1U);
  EXPECT_EQ(moves.next_deadline(), 1000 + NeighbourMoves::kIntervalMin);
  EXPECT_TRUE(moves.due(1001).empty());
  EXPECT_EQ(moves.due(moves.next_deadline()).size(), 1U);
}

TEST(NeighbourMoves, WhatIsNotFollowedRestsForAsLongAsWhatIs) {
  constexpr Duration kTaken = 50 * kNanosecondsPerMillisecond;
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  EXPECT_EQ(moves.due(1000).size(), 1U);
  moves.not_followed(1000, 1000 + kTaken);
  EXPECT_EQ(moves.next_deadline(), 1000 + kTaken + NeighbourMoves::kRestFactor * kTaken);
  EXPECT_EQ(moves.due(moves.next_deadline()).size(), 1U);
}

// Some of its paths may have been updated before memory ran out.
TEST(NeighbourMoves, APeerThatMovesBackMeanwhileIsFollowed) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  EXPECT_EQ(moves.due(1000).size(), 1U);
  moves.announced(kPeer, mac_of(1));
  const auto moved = moves.due(moves.next_deadline());
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].mac, mac_of(1));
}

// A flood of address changes costs at most a tenth of control's time, and the newest address
// counts.
TEST(NeighbourMoves, AFloodIsFollowedSeldomButToItsLastAddress) {
  constexpr Time kSecond = kNanosecondsPerSecond;
  constexpr Duration kLookAtAllPaths = 30 * kNanosecondsPerMillisecond;
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(0));
  Duration spent = 0;
  EtherAddress last = mac_of(0);
  Time now = 0;
  for (std::uint32_t i = 1; now < 10 * kSecond; ++i, now += kNanosecondsPerMillisecond) {
    moves.announced(kPeer, mac_of(static_cast<std::uint8_t>(i % 250 + 1)));
    if (const auto moved = moves.due(now); !moved.empty()) {
      spent += kLookAtAllPaths;
      moves.followed(now, now + kLookAtAllPaths);
    }
  }
  EXPECT_LE(spent, now / 10 + kLookAtAllPaths);
  EXPECT_GE(spent, now / 20) << "paths are still updated";
  moves.announced(kPeer, mac_of(251));
  const auto moved = moves.due(moves.next_deadline());
  ASSERT_EQ(moved.size(), 1U);
  last = moved[0].mac;
  EXPECT_EQ(last, mac_of(251));
}

TEST(NeighbourMoves, APeerThatMovesBackHasNotMoved) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  moves.announced(kPeer, mac_of(1));
  EXPECT_EQ(moves.next_deadline(), kNever);
}

// A path made meanwhile already has the new address; older ones must still be updated.
TEST(NeighbourMoves, ANewPathDoesNotCancelAPendingMove) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  moves.path_made(kPeer, mac_of(2));
  EXPECT_EQ(moves.due(1000).size(), 1U);
}

TEST(NeighbourMoves, APathMadeBeforeAPeerMovedBackIsUpdated) {
  NeighbourMoves moves;
  moves.path_made(kPeer, mac_of(1));
  moves.announced(kPeer, mac_of(2));
  moves.path_made(kPeer, mac_of(2));
  moves.announced(kPeer, mac_of(1));
  const auto moved = moves.due(1000);
  ASSERT_EQ(moved.size(), 1U);
  EXPECT_EQ(moved[0].mac, mac_of(1));
}

TEST(NeighbourMoves, AreBounded) {
  NeighbourMoves moves;
  Gid stranger = *parse_ip("10.1.0.0");
  for (std::size_t i = 0; i < 2 * NeighbourMoves::kWaitingMax; ++i) {
    stranger.bytes[14] = static_cast<std::uint8_t>(i >> 8U);
    stranger.bytes[15] = static_cast<std::uint8_t>(i);
    moves.path_made(stranger, mac_of(1));
    moves.announced(stranger, mac_of(2));
  }
  EXPECT_EQ(moves.due(1000).size(), NeighbourMoves::kWaitingMax);
}

}  // namespace
}  // namespace uroce::control
