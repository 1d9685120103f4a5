#include "mmu/pager/pager.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

class PagerTest : public testing::Test {
 protected:
  PagerTest() { program_.pager = &pager_; }

  void raise(std::uint64_t address, bool write = true, std::uint64_t length = 8,
             std::uint64_t ahead = 0) {
    PageFault* fault = queue_.take(
        {.address = address, .length = length, .ahead = ahead, .limit = limit_, .write = write});
    ASSERT_NE(fault, nullptr);
    fault->mirror = program_.mirror;
    fault->times.raised = program_.now;
    queue_.raise(fault);
  }
  // The outcome of the next finished fault, if there is one.
  std::optional<Access> outcome() {
    PageFault* fault = queue_.next_resumed(0);
    if (fault == nullptr) {
      return std::nullopt;
    }
    const Access answer = fault->outcome;
    failed_page_ = fault->failed_page;
    queue_.give_back(fault);
    return answer;
  }
  // Time advances from deadline to deadline of the fault thread.
  void wait_in_vain() {
    while (pager_.deadline() != kNever) {
      program_.now = pager_.deadline();
      pager_.expire(program_.now);
    }
  }
  bool resident(std::uint64_t address, bool write = true) {
    Span span;
    return program_.mirror->find(address, 1, write, &span) == Access::kGranted;
  }

  Quiescence quiescence_;
  PagedProgram program_{quiescence_};
  FaultQueue queue_{1};
  Pager pager_{queue_, program_};
  std::uint64_t failed_page_ = 0;
  std::uint64_t limit_ = kBase;  // where the region ends
};

TEST_F(PagerTest, AsksOnceAndBringsInThePages) {
  raise(kBase + 100);
  raise(kBase + 3 * kPage);
  EXPECT_TRUE(pager_.serve(program_.now));
  ASSERT_EQ(program_.questions.size(), 1U);
  EXPECT_EQ(program_.questions[0].first, kBase);
  EXPECT_EQ(program_.questions[0].end, kBase + Mirror::kChunk);
  EXPECT_FALSE(outcome());
  program_.answer();
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_TRUE(resident(kBase));
  EXPECT_FALSE(resident(kBase + kPage));
  EXPECT_TRUE(resident(kBase + 3 * kPage));
  raise(kBase + 9 * kPage);
  pager_.serve(program_.now);
  EXPECT_EQ(outcome(), Access::kGranted) << "the chunk is known, the program isn't asked";
}

TEST_F(PagerTest, NeighbouringChunksAreOneQuestion) {
  raise(kBase + Mirror::kChunk);
  raise(kBase);
  pager_.serve(program_.now);
  ASSERT_EQ(program_.questions.size(), 1U);
  EXPECT_EQ(program_.questions[0].end - program_.questions[0].first, 2 * Mirror::kChunk);
}

TEST_F(PagerTest, MemoryThatIsNotMappedIsSaidToBeSo) {
  program_.mapped = false;
  raise(kBase + 5 * kPage + 8);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kUnmapped);
  EXPECT_EQ(failed_page_, kBase + 5 * kPage);
  program_.mapped = true;
  raise(kBase + 5 * kPage + 8);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted) << "it has been mapped meanwhile";
}

TEST_F(PagerTest, WritingToReadOnlyMemoryIsRefusedUntilItMayBeWritten) {
  program_.read_only = true;
  raise(kBase, false);
  raise(kBase, true);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_EQ(outcome(), Access::kNoRight);
  program_.read_only = false;  // mprotect() to more rights, of which there is no notification
  raise(kBase, true);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted);
}

TEST_F(PagerTest, AnAnswerOvertakenByAnInvalidationIsRequestedAgain) {
  raise(kBase);
  pager_.serve(program_.now);
  program_.mirror->invalidate(7, kBase, kBase + kPage, true);
  program_.answer();
  EXPECT_FALSE(outcome()) << "it waits for the end of the invalidation";
  program_.mirror->unblock(7);
  pager_.changed(program_.mirror, program_.now);
  ASSERT_EQ(program_.questions.size(), 1U);
  program_.answer();
  EXPECT_EQ(outcome(), Access::kGranted);
}

TEST_F(PagerTest, FaultsOfAProgramThatDoesNotAnswerTimeOut) {
  raise(kBase);
  pager_.serve(program_.now);
  const Time begun = program_.now;
  wait_in_vain();
  EXPECT_EQ(program_.now, begun + Pager::kTimeout);
  EXPECT_EQ(outcome(), Access::kLate);
  EXPECT_EQ(pager_.deadline(), kNever);
  program_.answer();  // too late, and harmless
  raise(kBase);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted);
}

TEST_F(PagerTest, TimeInWhichTheDaemonWasStoppedDoesNotCount) {
  raise(kBase);
  pager_.serve(program_.now);
  program_.now += 2 * Pager::kTimeout;
  pager_.expire(program_.now);
  EXPECT_FALSE(outcome());
  const Time begun = program_.now;
  wait_in_vain();
  EXPECT_EQ(program_.now, begun + Pager::kTimeout - RunningTime::kStepMax);
  EXPECT_EQ(outcome(), Access::kLate);
}

TEST_F(PagerTest, ADeadProgramFailsAtOnce) {
  program_.dead = true;
  raise(kBase);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kLost);
}

TEST_F(PagerTest, ReadsAheadWithinTheMessage) {
  raise(kBase, true, 1'024, 10 * kPage);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_TRUE(resident(kBase + 10 * kPage));
  EXPECT_FALSE(resident(kBase + 12 * kPage));
}

TEST_F(PagerTest, ReadsAheadOfSequentialFaults) {
  limit_ = kBase + 3 * Mirror::kChunk;
  raise(kBase + Mirror::kChunk - 2 * kPage);
  program_.settle();
  raise(kBase + Mirror::kChunk - kPage);
  program_.settle();  // the window reaches into a chunk that the program hasn't described yet
  EXPECT_TRUE(resident(kBase + Mirror::kChunk + ReadAhead::kWindowMin - kPage));
  EXPECT_FALSE(resident(kBase + Mirror::kChunk + ReadAhead::kWindowMin));
}

TEST_F(PagerTest, AFailedReadAheadIsNoError) {
  limit_ = kBase + 8 * Mirror::kChunk;  // twice what is mapped
  const std::uint64_t end = kBase + program_.length;
  raise(end - 2 * kPage);
  program_.settle();
  raise(end - kPage);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_EQ(outcome(), Access::kGranted);
  EXPECT_EQ(pager_.deadline(), kNever);
}

TEST_F(PagerTest, ReadAheadDoesNotKeepADeadProgramsMirror) {
  limit_ = kBase + 3 * Mirror::kChunk;
  raise(kBase + Mirror::kChunk - 2 * kPage);
  program_.settle();
  raise(kBase + Mirror::kChunk - kPage);
  while (pager_.serve(program_.now)) {
  }
  ASSERT_EQ(program_.questions.size(), 1U) << "asked ahead";
  while (outcome()) {
  }
  const std::weak_ptr<Mirror> mirror = program_.mirror;
  program_.mirror->close();
  pager_.changed(program_.mirror, program_.now);
  program_.mirror.reset();
  EXPECT_TRUE(mirror.expired());
}

TEST_F(PagerTest, WaitingReadAheadIsBounded) {
  raise(kBase);
  program_.settle();
  const std::uint64_t page = kBase + Mirror::kChunk - 2 * kPage;
  for (std::size_t i = 0; i < 4 * Pager::kAheadsWaiting; ++i) {  // the program no longer answers
    raise(page, true, 8, 8 * kPage);
    while (pager_.serve(program_.now)) {
    }
    while (outcome()) {
    }
    program_.mirror->invalidate(7, page, page + kPage, false);
    program_.mirror->unblock(7);
  }
  EXPECT_EQ(program_.questions.size(), 1U);
  EXPECT_LE(program_.mirror.use_count(), static_cast<long>(Pager::kAheadsWaiting) + 4);
}

TEST_F(PagerTest, ReadAheadDoesNotDirtyFiles) {
  limit_ = kBase + 2 * Mirror::kChunk;
  program_.a_file = true;
  raise(kBase);
  raise(kBase + kPage);
  program_.settle();
  EXPECT_FALSE(resident(kBase + 2 * kPage));
  raise(kBase + 2 * kPage, true, 8, kPage);
  program_.settle();
  EXPECT_TRUE(resident(kBase + 3 * kPage)) << "the message writes to it";
  raise(kBase + Mirror::kChunk, false);
  program_.settle();
  raise(kBase + Mirror::kChunk + kPage, false);
  program_.settle();
  EXPECT_TRUE(resident(kBase + Mirror::kChunk + 2 * kPage, false));
}

TEST_F(PagerTest, NoReadAheadWhenMemoryIsShort) {
  limit_ = kBase + 2 * Mirror::kChunk;
  pager_.set_frugal(true);
  raise(kBase, true, 8, kPage);
  program_.settle();
  raise(kBase + 2 * kPage, true, 8, kPage);
  program_.settle();
  EXPECT_TRUE(resident(kBase + 3 * kPage));
  EXPECT_FALSE(resident(kBase + 4 * kPage));
}

TEST_F(PagerTest, InvalidAddressesFail) {
  constexpr std::uint64_t kLastBytes = ~0ULL - 7;
  for (const std::uint64_t address : std::array<std::uint64_t, 4>{
           Mirror::kAddressEnd, Mirror::kAddressEnd + kPage, 0xFFFF'FFFF'FFFF'F800, kLastBytes}) {
    raise(address);
    program_.settle();
    EXPECT_EQ(outcome(), Access::kUnmapped) << address;
    EXPECT_EQ(failed_page_, page_floor(address));
  }
  raise(kBase, true, ~0ULL - kBase);
  program_.settle();
  EXPECT_EQ(outcome(), Access::kUnmapped) << "it ends beyond the valid addresses";
  for (const bool faulting : {false, true}) {
    std::optional<Access> done;
    pager_.prefetch({.mirror = program_.mirror,
                     .address = kLastBytes,
                     .length = 7,
                     .faulting = faulting,
                     .done = [&](Access outcome) { done = outcome; }},
                    program_.now);
    EXPECT_TRUE(pager_.serve(program_.now) || pager_.serve(program_.now));
    EXPECT_EQ(done, faulting ? Access::kUnmapped : Access::kGranted);
  }
}

TEST_F(PagerTest, PrefetchesAndReportsTheEnd) {
  std::optional<Access> done;
  pager_.prefetch({.mirror = program_.mirror,
                   .address = kBase + 10,
                   .length = 3 * Mirror::kChunk,
                   .write = true,
                   .faulting = true,
                   .done = [&](Access outcome) { done = outcome; }},
                  program_.now);
  program_.settle();
  EXPECT_EQ(done, Access::kGranted);
  EXPECT_TRUE(resident(kBase + 3 * Mirror::kChunk));
  program_.mapped = false;
  pager_.prefetch({.mirror = program_.mirror,
                   .address = kBase + 16 * Mirror::kChunk,
                   .length = 1,
                   .write = false,
                   .faulting = true,
                   .done = [&](Access outcome) { done = outcome; }},
                  program_.now);
  program_.settle();
  EXPECT_EQ(done, Access::kUnmapped);
}

// ibv_advise_mr can name 2^46 bytes, and the program may end a moment later.
TEST_F(PagerTest, PrefetchesEndWithTheirSession) {
  std::uint32_t over = 0;
  for (const bool faulting : {false, true}) {
    for (int i = 0; i < 10; ++i) {
      pager_.prefetch({.mirror = program_.mirror,
                       .address = 0,
                       .length = 1ULL << 46U,
                       .faulting = faulting,
                       .done = [&](Access outcome) { over += outcome == Access::kLost ? 1 : 0; }},
                      program_.now);
    }
  }
  pager_.serve(program_.now);
  program_.mirror->close();
  pager_.changed(program_.mirror, program_.now);
  EXPECT_EQ(over, 20U);
  EXPECT_FALSE(pager_.serve(program_.now));
  EXPECT_EQ(pager_.deadline(), kNever);
}

TEST_F(PagerTest, PrefetchesRunInTheBackground) {
  raise(kBase);
  program_.settle();
  EXPECT_EQ(program_.backgrounds, 0U);
  pager_.prefetch({.mirror = program_.mirror, .address = kBase, .length = Mirror::kChunk},
                  program_.now);
  program_.settle();
  EXPECT_EQ(program_.backgrounds, Mirror::kPagesInChunk / Pager::kSlice);
  EXPECT_FALSE(program_.background);
}

}  // namespace
}  // namespace uroce::test
