#include "control/ip/groups/group_answers.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::control {
namespace {

const GroupAnswers::Answer kGroup(*parse_ip("239.1.2.3"), 5);
constexpr Duration kWithin = 10 * kNanosecondsPerSecond;

GroupAnswers::Answer group(std::size_t number) {
  Gid gid = *parse_ip("239.1.0.0");
  gid.bytes[14] = static_cast<std::uint8_t>(number >> 8U);
  gid.bytes[15] = static_cast<std::uint8_t>(number);
  return gid;
}

TEST(GroupAnswers, AreDueWithinTheTimeThatTheQueryAllows) {
  GroupAnswers answers;
  answers.plan(kGroup, 1000, kWithin);
  EXPECT_GE(answers.next_deadline(), Time{1000});
  EXPECT_LE(answers.next_deadline(), 1000 + kWithin);
  EXPECT_EQ(answers.due(1000 + kWithin), std::vector{kGroup});
  EXPECT_EQ(answers.next_deadline(), kNever);
}

TEST(GroupAnswers, QueriesThatComeMeanwhileHaveTheSameAnswerAndMayHastenIt) {
  GroupAnswers answers;
  answers.plan(kGroup, 1000, kWithin);
  for (int i = 0; i < 100; ++i) {
    const Time before = answers.next_deadline();
    answers.plan(kGroup, 1000, kWithin);
    EXPECT_LE(answers.next_deadline(), before);
  }
  answers.plan(kGroup, 1000, 0);
  EXPECT_EQ(answers.next_deadline(), Time{1000});
  EXPECT_EQ(answers.due(1000 + kWithin).size(), 1U);
}

TEST(GroupAnswers, AreSpreadOverTheTime) {
  constexpr std::size_t kGroups = 1'024;
  GroupAnswers answers;
  for (std::size_t i = 0; i < kGroups; ++i) {
    answers.plan(group(i), 0, kWithin);
  }
  std::set<GroupAnswers::Answer> sent;
  std::size_t of_first_half = 0;
  while (answers.next_deadline() != kNever) {
    const Time now = answers.next_deadline();
    for (const GroupAnswers::Answer& answer : answers.due(now)) {
      EXPECT_TRUE(sent.insert(answer).second);
      of_first_half += now < kWithin / 2 ? 1 : 0;
    }
  }
  EXPECT_EQ(sent.size(), kGroups);
  EXPECT_GT(of_first_half, kGroups / 4);
  EXPECT_LT(of_first_half, kGroups * 3 / 4);
}

// Queries that allow no time are answered at a limited rate nevertheless.
TEST(GroupAnswers, AreSentAtALimitedRate) {
  constexpr std::size_t kGroups = 2 * GroupAnswers::kBatch + 1;
  GroupAnswers answers;
  for (std::size_t i = 0; i < kGroups; ++i) {
    answers.plan(group(i), 0, 0);
  }
  EXPECT_EQ(answers.due(0).size(), GroupAnswers::kBatch);
  EXPECT_TRUE(answers.due(GroupAnswers::kPause - 1).empty());
  EXPECT_EQ(answers.next_deadline(), GroupAnswers::kPause);
  EXPECT_EQ(answers.due(GroupAnswers::kPause).size(), GroupAnswers::kBatch);
  EXPECT_EQ(answers.due(2 * GroupAnswers::kPause).size(), 1U);
}

}  // namespace
}  // namespace uroce::control
