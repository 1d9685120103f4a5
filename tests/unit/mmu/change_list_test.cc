#include "mmu/mirror/change_list.h"

#include <gtest/gtest.h>

#include <thread>

namespace uroce::test {
namespace {

using Kind = ChangeList::Kind;

TEST(ChangeLists, SayWhatHasChangedSince) {
  ChangeList changes;
  changes.note(Kind::kAny, 10, 20);
  const std::uint64_t before = changes.count();
  EXPECT_FALSE(changes.touches(Kind::kAny, before, 0, 100)) << "that one came earlier";
  changes.note(Kind::kAny, 30, 40);
  EXPECT_TRUE(changes.touches(Kind::kAny, before, 39, 50));
  EXPECT_FALSE(changes.touches(Kind::kAny, before, 40, 50));
  EXPECT_FALSE(changes.touches(Kind::kAny, before, 20, 30));
  EXPECT_FALSE(changes.touches(Kind::kContents, before, 0, 100));
  changes.note(Kind::kContents, 50, 60);
  EXPECT_TRUE(changes.touches(Kind::kContents, before, 0, 100));
  EXPECT_TRUE(changes.touches(Kind::kAny, before, 50, 51));
}

TEST(ChangeLists, SayYesWhereTheyDontKnow) {
  ChangeList changes;
  for (std::size_t i = 0; i + 1 < ChangeList::kKept; ++i) {
    changes.note(Kind::kAny, 10, 20);
  }
  EXPECT_FALSE(changes.touches(Kind::kAny, 0, 0, 10));
  changes.note(Kind::kAny, 10, 20);
  EXPECT_TRUE(changes.touches(Kind::kAny, 0, 0, 10));
  EXPECT_FALSE(changes.touches(Kind::kAny, 1, 0, 10));
}

// Whoever looks while changes are noted misses none that were counted.
TEST(ChangeLists, AreReadWhileTheyChange) {
  constexpr std::uint64_t kChanges = 100'000;
  ChangeList changes;
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kChanges; ++i) {
      changes.note(Kind::kContents, i, i + 1);
    }
  });
  for (std::uint64_t seen = 0; seen < kChanges; seen = changes.count()) {
    if (seen != 0) {
      ASSERT_TRUE(changes.touches(Kind::kContents, seen - 1, seen - 1, seen)) << seen;
    }
  }
}

}  // namespace
}  // namespace uroce::test
