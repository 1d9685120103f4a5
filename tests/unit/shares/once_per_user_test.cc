#include "shares/once_per_user.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "shares/shares.h"

namespace uroce {
namespace {

constexpr std::uint64_t kOfEachKind = 64;

class OncePerUserTest : public ::testing::Test {
 protected:
  static Amounts all() {
    Amounts amounts;
    amounts.fill(kOfEachKind);
    return amounts;
  }
  Shares shares{all()};
  std::shared_ptr<Account> one = shares.of({.uid = ::geteuid() + 1});
  std::shared_ptr<Account> other = shares.of({.uid = ::geteuid() + 2});
  OncePerUser<int> groups{Limit::kGroups};
};

TEST_F(OncePerUserTest, ChargesTheFirstUseAndReturnsTheLast) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(groups.use(*one, 7));
    EXPECT_EQ(one->used(Limit::kGroups), 1U);
  }
  ASSERT_TRUE(groups.use(*other, 7));
  EXPECT_EQ(other->used(Limit::kGroups), 1U) << "each user pays";
  EXPECT_EQ(groups.count(one->number(), 7), 3U);
  EXPECT_EQ(groups.count(7), 4U) << "of both";
  for (int left = 3; left > 0; --left) {
    EXPECT_EQ(one->used(Limit::kGroups), 1U);
    groups.leave(one->number(), 7);
  }
  EXPECT_EQ(one->used(Limit::kGroups), 0U);
  EXPECT_EQ(groups.count(one->number(), 7), 0U);
  EXPECT_EQ(groups.count(other->number(), 7), 1U);
}

TEST_F(OncePerUserTest, ARefusedOneLeavesNothing) {
  int used = 0;
  while (groups.use(*one, used)) {
    ++used;
  }
  EXPECT_GT(used, 0);
  EXPECT_LE(static_cast<std::uint64_t>(used), kOfEachKind / 2);
  EXPECT_EQ(groups.use(*one, used).error().code, ENOMEM);
  EXPECT_EQ(groups.count(one->number(), used), 0U);
  EXPECT_TRUE(groups.use(*one, 0)) << "what the user has already costs nothing more";
  EXPECT_TRUE(groups.use(*other, used));
}

}  // namespace
}  // namespace uroce
