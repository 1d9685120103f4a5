// PSN arithmetic around the wrap.

#include "dataplane/wire/psn.h"

#include <gtest/gtest.h>

#include <random>

namespace uroce {
namespace {

TEST(Psn, adds_modulo_two_to_the_24) {
  EXPECT_EQ(psn_add(0xFF'FFFF, 1), 0U);
  EXPECT_EQ(psn_add(0xFF'FFF0, 0x20), 0x10U);
  EXPECT_EQ(psn_add(5, 0), 5U);
}

TEST(Psn, distances_and_the_one_before_cross_the_wrap) {
  EXPECT_EQ(psn_distance(0xFF'FFFE, 1), 3U);
  EXPECT_EQ(psn_distance(7, 7), 0U);
  EXPECT_EQ(psn_distance(1, 0), kPsnMask) << "it is before";
  EXPECT_EQ(psn_before(0), kPsnMask);
  EXPECT_EQ(psn_before(8), 7U);
  EXPECT_EQ(msn_add(kPsnMask, 1), 0U);
}

TEST(Psn, differences_are_signed_and_cross_the_wrap) {
  EXPECT_EQ(psn_difference(0, 0xFF'FFFF), 1);
  EXPECT_EQ(psn_difference(0xFF'FFFF, 0), -1);
  EXPECT_EQ(psn_difference(0x7F'FFFF, 0), 0x7F'FFFF);
  EXPECT_EQ(psn_difference(0x80'0000, 0), -0x80'0000);
  EXPECT_EQ(psn_difference(17, 17), 0);
}

TEST(Psn, place_in_sequence) {
  EXPECT_EQ(place_in_sequence(10, 10), Sequence::kExpected);
  EXPECT_EQ(place_in_sequence(10, 9), Sequence::kDuplicate);
  EXPECT_EQ(place_in_sequence(10, 11), Sequence::kAhead);
  EXPECT_EQ(place_in_sequence(0, 0xFF'FFFF), Sequence::kDuplicate);
  EXPECT_EQ(place_in_sequence(0xFF'FFFF, 0), Sequence::kAhead);
}

TEST(Psn, difference_undoes_add) {
  std::mt19937 random{1};
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t psn = random() & kPsnMask;
    const auto step = static_cast<std::int32_t>(random() & 0x7F'FFFFU);
    EXPECT_EQ(psn_difference(psn_add(psn, static_cast<std::uint32_t>(step)), psn), step);
    EXPECT_EQ(psn_difference(psn, psn_add(psn, static_cast<std::uint32_t>(step))), -step);
  }
}

}  // namespace
}  // namespace uroce
