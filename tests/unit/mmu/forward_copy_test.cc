// The order in which copies store: a program that polls the end of a buffer must find all of it.
// What is copied ends in a page that doesn't exist. The copy fails at its first store there, and by
// then everything in front of that page must have been stored.

#include "mmu/copies/forward_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/sanitized.h"
#include "mmu/copies/copy.h"
#include "tests/unit/mmu/half_file.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

constexpr std::size_t kLongest = 64U << 10U;
constexpr std::size_t kAlignments = 64;

class ForwardCopies : public testing::Test {
 protected:
  ForwardCopies() {
    install_copy_guard();
    for (std::size_t i = 0; i < source_.size(); ++i) {
      source_[i] = static_cast<std::byte>(i % 251 + 1);
    }
  }

  // A copy of which `inside` bytes have a place.
  void expect_in_order(ForwardCopy copy, std::size_t length, std::size_t inside) {
    std::byte* const destination = file_.end() - inside;
    std::memset(destination, 0, inside);
    ASSERT_FALSE(copy(destination, source_.data() + 6, length));
    ASSERT_EQ(std::memcmp(destination, source_.data() + 6, inside), 0)
        << length << " bytes, " << inside << " of them inside";
  }

  HalfFile file_{kLongest / kPage + 1};
  std::vector<std::byte> source_ = std::vector<std::byte>(kLongest + kAlignments);
};

TEST_F(ForwardCopies, CopyEveryLengthToEveryAlignment) {
  for (const ForwardCopy copy : forward_copies()) {
    for (std::size_t length = kForwardCopyMin; length < 6 * kForwardCopyMin; ++length) {
      for (std::size_t at = 1; at <= kAlignments; ++at) {
        std::memset(file_.memory(), 0, length + 2 * kAlignments);
        ASSERT_TRUE(copy(file_.memory() + at, source_.data() + length % kAlignments, length));
        ASSERT_EQ(std::memcmp(file_.memory() + at, source_.data() + length % kAlignments, length),
                  0);
        ASSERT_EQ(file_.memory()[at - 1], std::byte{0}) << length << " to " << at;
        ASSERT_EQ(file_.memory()[at + length], std::byte{0}) << length << " to " << at;
      }
    }
  }
}

TEST_F(ForwardCopies, FailWhereTheSourceIsMissing) {
  for (const ForwardCopy copy : forward_copies()) {
    for (std::size_t inside = 0; inside < 200; ++inside) {
      EXPECT_FALSE(copy(source_.data(), file_.end() - inside, 200)) << inside;
    }
    EXPECT_TRUE(copy(source_.data(), file_.end() - 200, 200));
  }
}

TEST_F(ForwardCopies, StoreNothingBeforeWhatIsInFrontOfIt) {
  for (const ForwardCopy copy : forward_copies()) {
    for (const std::size_t length :
         std::to_array<std::size_t>({65, 96, 100, 128, 192, 256, 320, 512, 1'000, 2'048, 4'096})) {
      for (std::size_t inside = 1; inside < length; ++inside) {
        ASSERT_NO_FATAL_FAILURE(expect_in_order(copy, length, inside));
      }
    }
  }
}

// The way of a packet's bytes, and of those of a direct transfer.
TEST_F(ForwardCopies, AreWhatPacketsAreStoredBy) {
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer's copies have an order of their own";
  }
  for (const std::size_t length : std::to_array<std::size_t>({65, 100, 512, kForwardCopyMax})) {
    for (std::size_t inside = 1; inside < length; inside += 7) {
      ASSERT_NO_FATAL_FAILURE(expect_in_order(copy_mapped, length, inside));
    }
  }
}

TEST_F(ForwardCopies, StoreTheEndOfLongOnesLast) {
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer's copies have an order of their own";
  }
  for (const std::size_t length : {kForwardCopyMax + 1, 2 * kForwardCopyMax, kLongest}) {
    for (std::size_t outside = 1; outside <= kForwardCopyMin; ++outside) {
      ASSERT_NO_FATAL_FAILURE(expect_in_order(copy_mapped, length, length - outside));
    }
  }
}

TEST_F(ForwardCopies, MayBeGivenWhatOverlaps) {
  std::vector<std::byte> memory(3 * kForwardCopyMax);
  for (const std::size_t length :
       {1UL, 64UL, 65UL, 500UL, kForwardCopyMax, kForwardCopyMax + 100}) {
    for (const std::size_t distance : {1UL, 31UL, 64UL, 400UL}) {
      for (const bool up : {false, true}) {
        std::copy_n(source_.begin(), memory.size(), memory.begin());
        const std::size_t from = up ? 0 : distance;
        ASSERT_TRUE(copy_mapped(memory.data() + (distance - from), memory.data() + from, length));
        EXPECT_TRUE(
            std::equal(memory.begin() + static_cast<std::ptrdiff_t>(distance - from),
                       memory.begin() + static_cast<std::ptrdiff_t>(distance - from + length),
                       source_.begin() + static_cast<std::ptrdiff_t>(from)))
            << length << " by " << distance;
      }
    }
  }
}

}  // namespace
}  // namespace uroce::test
