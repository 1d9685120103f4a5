#include "control/server/throttled_users.h"

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

constexpr User kOrdinary{.uid = 1'000}, kAttacker{.uid = 1'001}, kOther{.uid = 1'002};
constexpr Duration kLong = 80 * kNanosecondsPerMillisecond;

TEST(ThrottledUsers, AreThoseWhoseCommandsTakeLong) {
  ThrottledUsers users;
  users.note(kOrdinary, 0, ThrottledUsers::kLongCommand);
  users.note(kAttacker, 0, kLong);
  EXPECT_FALSE(users.is_throttled(kOrdinary, kLong));
  EXPECT_TRUE(users.is_throttled(kAttacker, kLong));
  EXPECT_FALSE(users.is_throttled(kAttacker, kLong + ThrottledUsers::kRemembered));
}

constexpr Duration kShort = ThrottledUsers::kLongCommand * 9 / 10;

// Hundreds of sessions whose commands take just less than long.
TEST(ThrottledUsers, AreThoseWhoseSessionsTakeLongTogether) {
  ThrottledUsers users;
  users.begin_turn();
  users.note(kOrdinary, 0, 1);
  users.note(kAttacker, 1, kShort);
  EXPECT_FALSE(users.is_throttled(kAttacker, kShort));
  EXPECT_FALSE(users.has_had_turn(kAttacker));
  users.note(kAttacker, kShort, 2 * kShort);
  EXPECT_TRUE(users.is_throttled(kAttacker, 2 * kShort));
  EXPECT_FALSE(users.is_throttled(kOrdinary, 2 * kShort));
  users.wait(kAttacker, 17);
  EXPECT_EQ(users.next_time(), 4 * kShort - 1) << "others get the time of both";
}

TEST(ThrottledUsers, AreNotThoseWithShortCommandsInEachTurn) {
  ThrottledUsers users;
  for (Time now = 0; now < ThrottledUsers::kRemembered; now += kShort) {
    users.begin_turn();
    users.note(kOrdinary, now, now + 1);
    users.note(kAttacker, now + 1, now + kShort);
    EXPECT_FALSE(users.is_throttled(kAttacker, now + kShort));
  }
}

// But a turn is soon over: somebody may be about to connect.
TEST(ThrottledUsers, AreNotThoseWithoutOthers) {
  ThrottledUsers users;
  users.note(kOther, 0, 1);
  const Time begun = ThrottledUsers::kRemembered + 1;  // the other one has gone
  users.begin_turn();
  users.note(kOrdinary, begun, begun + kShort);
  EXPECT_FALSE(users.has_had_turn(kOrdinary));
  users.note(kOrdinary, begun + kShort, begun + 2 * kShort);
  EXPECT_TRUE(users.has_had_turn(kOrdinary));
  EXPECT_FALSE(users.is_throttled(kOrdinary, begun + 2 * kShort));
  users.begin_turn();
  EXPECT_FALSE(users.has_had_turn(kOrdinary));
}

TEST(ThrottledUsers, LeaveOthersAsMuchTimeAsTheyTook) {
  ThrottledUsers users;
  EXPECT_EQ(users.next_time(), kNever);
  users.note(kAttacker, 0, kLong);
  users.wait(kAttacker, 17);
  EXPECT_EQ(users.next_time(), 2 * kLong);
  EXPECT_EQ(users.next(2 * kLong - 1), 0U);
  EXPECT_EQ(users.next(2 * kLong), 17U);
  EXPECT_EQ(users.next(2 * kLong), 0U);
  EXPECT_EQ(users.next_time(), kNever);
}

// Whatever the number of a user's sessions.
TEST(ThrottledUsers, TakeTurns) {
  ThrottledUsers users;
  for (std::uint64_t id = 20; id < 30; ++id) {
    users.wait(kAttacker, id);
  }
  users.wait(kOther, 40);
  EXPECT_EQ(users.next(0), 20U);
  EXPECT_EQ(users.next(0), 40U);
  users.wait(kOther, 40);
  EXPECT_EQ(users.next(0), 21U);
  EXPECT_EQ(users.next(0), 40U);
}

// A session that sends its next command at once doesn't overtake the others of its user.
TEST(ThrottledUsers, TheirSessionsTakeTurns) {
  ThrottledUsers users;
  users.wait(kAttacker, 20);
  users.wait(kAttacker, 21);
  EXPECT_EQ(users.next(0), 20U);
  users.wait(kAttacker, 20);
  EXPECT_EQ(users.next(0), 21U);
  EXPECT_EQ(users.next(0), 20U);
}

TEST(ThrottledUsers, AnEndedSessionHasNoTurn) {
  ThrottledUsers users;
  users.wait(kAttacker, 20);
  users.wait(kAttacker, 21);
  users.forget(kAttacker, 20);
  users.forget(kOther, 40);
  EXPECT_EQ(users.next(0), 21U);
  EXPECT_EQ(users.next_time(), kNever);
}

}  // namespace
}  // namespace uroce::control
