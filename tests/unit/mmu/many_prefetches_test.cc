// Thousands of prefetches: their cost for the fault thread, and for another user's prefetch.

#include <gtest/gtest.h>

#include <ctime>
#include <memory>
#include <vector>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

class ManyPrefetches : public testing::Test {
 protected:
  ManyPrefetches() { program_.pager = &pager_; }

  std::shared_ptr<Mirror> mirror_of(uid_t user) {
    return std::make_shared<Mirror>(quiescence_, UniqueFd(), 0, shares_.of({.uid = user}));
  }
  // A prefetch that waits for the program's answer.
  void ask(const std::shared_ptr<Mirror>& mirror) {
    pager_.prefetch({.mirror = mirror,
                     .address = kBase,
                     .length = 1,
                     .done = [this](Access outcome) { lost_ += is_lost(outcome) ? 1 : 0; }},
                    program_.now);
  }
  void serve_all() {
    while (pager_.serve(program_.now)) {
    }
  }

  Shares shares_;
  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  FaultQueue queue_{1};
  Pager pager_{queue_, program_};
  std::uint32_t lost_ = 0;
};

TEST_F(ManyPrefetches, ThatWaitDoNotSlowATurn) {
  std::vector<std::shared_ptr<Mirror>> mirrors;
  for (int i = 0; i < 100; ++i) {
    mirrors.push_back(mirror_of(1'000));
    for (int range = 0; range < 1'000; ++range) {
      ask(mirrors.back());
    }
  }
  serve_all();
  constexpr int kLooks = 100'000;
  constexpr std::clock_t kSecondsMax = 5;  // scanning all of them each time took more than 50
  const std::clock_t begun = std::clock();
  Time last = 0;
  for (int i = 0; i < kLooks && std::clock() - begun < kSecondsMax * CLOCKS_PER_SEC; ++i) {
    last = pager_.deadline();
    pager_.expire(program_.now);
  }
  EXPECT_NE(last, kNever);
  EXPECT_LT(std::clock() - begun, kSecondsMax * CLOCKS_PER_SEC);
  for (const auto& mirror : mirrors) {
    mirror->close();
    pager_.changed(mirror, program_.now);
  }
  EXPECT_EQ(lost_, 100'000U);
  EXPECT_EQ(pager_.deadline(), kNever);
}

// Each begins a moment after the previous one, so each times out by itself.
TEST_F(ManyPrefetches, ThatEndOneByOneLeaveTheOthersAlone) {
  constexpr std::uint32_t kRanges = 1'000;
  for (std::uint32_t range = 0; range < kRanges; ++range) {
    ask(program_.mirror);
    serve_all();
    program_.now += kNanosecondsPerMillisecond;
  }
  EXPECT_EQ(program_.backgrounds, kRanges);
  EXPECT_EQ(program_.questions.size(), 1U);
  while (pager_.deadline() != kNever) {
    program_.now = pager_.deadline();
    pager_.expire(program_.now);
    serve_all();
  }
  EXPECT_EQ(lost_, kRanges);
  EXPECT_EQ(program_.backgrounds, 2 * kRanges)
      << "each was served when it began and when it timed out";
  EXPECT_EQ(program_.questions.size(), 1U)
      << "the program isn't asked for prefetches that have ended";
}

TEST_F(ManyPrefetches, OfOneUserDelayAnothersByOne) {
  const auto busy = mirror_of(1'000);
  const auto other = mirror_of(1'001);
  for (int i = 0; i < 1'000; ++i) {
    pager_.prefetch({.mirror = busy, .address = kBase, .length = 1ULL << 40U, .faulting = false},
                    program_.now);
  }
  pager_.serve(program_.now);
  bool done = false;
  pager_.prefetch({.mirror = other,
                   .address = kBase,
                   .length = 1,
                   .faulting = false,
                   .done = [&](Access) { done = true; }},
                  program_.now);
  int turns = 0;
  for (; !done && turns < 100; ++turns) {
    pager_.serve(program_.now);
  }
  EXPECT_TRUE(done);
  EXPECT_LE(turns, 2);
}

}  // namespace
}  // namespace uroce::test
