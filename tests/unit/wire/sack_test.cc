#include "dataplane/wire/sack.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace uroce {
namespace {

using Payload = std::array<std::byte, kSackBytesMax>;

TEST(Sack, ParsesAsWritten) {
  for (const std::uint32_t newest : {1U, 31U, 32U, 500U, Sack::kSpan - 1}) {
    Sack sack{.serial = 0x89AB'CDEF, .psns = newest + 1};
    sack.received.set(newest / 2 + 1);
    sack.received.set(newest);
    Payload payload;
    const std::size_t length = write_sack(sack, payload);
    EXPECT_EQ(length, 8 + newest / 32 * 4 + 4) << "no longer than necessary";
    const auto parsed = parse_sack(std::span(payload).first(length));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->serial, sack.serial);
    EXPECT_EQ(parsed->psns, sack.psns);
    EXPECT_EQ(parsed->received, sack.received);
  }
}

TEST(Sack, MayReportThatNothingWasReceived) {
  Payload payload;
  const std::size_t length = write_sack({.serial = 7}, payload);
  const auto parsed = parse_sack(std::span(payload).first(length));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->psns, 0U);
}

TEST(Sack, OtherVendorsPayloadsAreRejected) {
  EXPECT_TRUE(is_sack_request(sack_request()));
  const std::array<std::byte, kSackBytesMax + 4> zeros{};
  for (std::size_t length = 0; length <= zeros.size(); length += 4) {
    const auto payload = std::span(zeros).first(length);
    EXPECT_FALSE(is_sack_request(payload));
    EXPECT_FALSE(parse_sack(payload).has_value()) << length;
  }
  std::array<std::byte, kSackBytesMax + 4> too_long{};
  const auto mark = sack_request();
  std::copy(mark.begin(), mark.end(), too_long.begin());
  EXPECT_FALSE(parse_sack(too_long).has_value());
  EXPECT_FALSE(parse_sack(mark).has_value()) << "no serial number";
}

}  // namespace
}  // namespace uroce
