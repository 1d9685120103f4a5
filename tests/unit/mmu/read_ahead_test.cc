// How much is populated ahead of sequential faults.

#include "mmu/pager/read_ahead.h"

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

constexpr std::uint64_t kMessage = 64ULL << 10U;
constexpr std::uint64_t kStreamBase = 1ULL << 40U;
constexpr std::uint64_t kNoLimit = ~0ULL;

class StreamsTest : public ::testing::Test {
 protected:
  // The fault of a message at `offset`; returns how many bytes are populated after it.
  std::uint64_t follow(std::uint64_t offset, std::uint64_t limit = kNoLimit, bool write = true) {
    last_ = streams_.follow(nullptr, write,
                            {.first = kStreamBase + offset, .end = kStreamBase + offset + kMessage},
                            limit);
    return last_.empty() ? 0 : last_.end - last_.first;
  }

  ReadAhead streams_;
  ReadAhead::Range last_;
};

TEST_F(StreamsTest, ScatteredFaultsReadNothingAhead) {
  for (const std::uint64_t at : {5U, 90U, 17U, 60U, 33U}) {
    EXPECT_EQ(follow(at << 20U), 0U);
  }
}

TEST_F(StreamsTest, TheWindowDoublesUpToItsMaximum) {
  EXPECT_EQ(follow(0), 0U);
  EXPECT_EQ(follow(kMessage), ReadAhead::kWindowMin);
  EXPECT_EQ(last_.first, kStreamBase + 2 * kMessage);
  std::uint64_t brought = last_.end;
  for (std::uint64_t message = 2; message < 20; ++message) {
    const std::uint64_t more = follow(message * kMessage);
    if (more != 0) {
      EXPECT_EQ(last_.first, brought) << "nothing twice, no gap";
      brought = last_.end;
    }
  }
  EXPECT_EQ(brought, kStreamBase + 20 * kMessage + ReadAhead::kWindowMax);
}

TEST_F(StreamsTest, NothingBeyondTheRegion) {
  EXPECT_EQ(follow(0), 0U);
  EXPECT_EQ(follow(kMessage, kStreamBase + 3 * kMessage), kMessage);
  EXPECT_EQ(follow(2 * kMessage, kStreamBase + 3 * kMessage), 0U);
}

TEST_F(StreamsTest, ReadingDoesNotFollowWriting) {
  EXPECT_EQ(follow(0), 0U);
  EXPECT_EQ(follow(kMessage, kNoLimit, false), 0U);
}

TEST_F(StreamsTest, ReorderedMessagesEndNoStream) {
  EXPECT_EQ(follow(0), 0U);
  EXPECT_EQ(follow(2 * kMessage), 0U) << "not sequential";
  EXPECT_EQ(follow(3 * kMessage), ReadAhead::kWindowMin);
  EXPECT_EQ(follow(kMessage), ReadAhead::kWindowMin) << "it continues the first stream";
}

TEST_F(StreamsTest, TheSamePageAgainIsNoStream) {
  EXPECT_EQ(follow(0), 0U);
  for (int time = 0; time < 8; ++time) {
    EXPECT_EQ(follow(0), 0U);
  }
}

TEST_F(StreamsTest, ABoundedNumberOfStreamsIsRemembered) {
  EXPECT_EQ(follow(0), 0U);
  for (std::uint64_t other = 1; other < ReadAhead::kStreams; ++other) {
    EXPECT_EQ(follow(other << 30U), 0U);
  }
  EXPECT_GT(follow(kMessage), 0U) << "the streams still fit";
  EXPECT_EQ(follow(ReadAhead::kStreams << 30U), 0U);
  EXPECT_EQ(follow((1ULL << 30U) + kMessage), 0U) << "the oldest stream was replaced";
}

}  // namespace
}  // namespace uroce::test
