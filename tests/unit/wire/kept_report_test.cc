#include "dataplane/wire/kept_report.h"

#include <gtest/gtest.h>

#include <array>
#include <span>

namespace uroce {
namespace {

using Payload = std::array<std::byte, kKeptReportBytesMax>;

TEST(KeptReport, ParsesAsWritten) {
  for (const std::uint32_t newest : {1U, 31U, 32U, 500U, KeptReport::kSpan - 1}) {
    KeptReport report{.serial = 0x89AB'CDEF, .psns = newest + 1};
    report.kept.set(newest / 2 + 1);
    report.kept.set(newest);
    Payload payload;
    const std::size_t length = write_kept_report(report, payload);
    EXPECT_EQ(length, 8 + newest / 32 * 4 + 4) << "no longer than necessary";
    const auto parsed = parse_kept_report(std::span(payload).first(length));
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->serial, report.serial);
    EXPECT_EQ(parsed->psns, report.psns);
    EXPECT_EQ(parsed->kept, report.kept);
  }
}

TEST(KeptReport, MayReportThatNothingIsKept) {
  Payload payload;
  const std::size_t length = write_kept_report({.serial = 7}, payload);
  const auto parsed = parse_kept_report(std::span(payload).first(length));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->psns, 0U);
}

TEST(KeptReport, OtherVendorsPayloadsAreRejected) {
  EXPECT_TRUE(is_kept_ask(kept_ask()));
  const std::array<std::byte, kKeptReportBytesMax + 4> zeros{};
  for (std::size_t length = 0; length <= zeros.size(); length += 4) {
    const auto payload = std::span(zeros).first(length);
    EXPECT_FALSE(is_kept_ask(payload));
    EXPECT_FALSE(parse_kept_report(payload).has_value()) << length;
  }
  std::array<std::byte, kKeptReportBytesMax + 4> too_long{};
  const auto mark = kept_ask();
  std::copy(mark.begin(), mark.end(), too_long.begin());
  EXPECT_FALSE(parse_kept_report(too_long).has_value());
  EXPECT_FALSE(parse_kept_report(mark).has_value()) << "no serial number";
}

}  // namespace
}  // namespace uroce
