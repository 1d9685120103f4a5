// How header changes alter the ICRC, compared with computing it again.

#include "dataplane/wire/icrc_change.h"

#include <gtest/gtest.h>

#include "dataplane/wire/crc/crc32.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

std::uint32_t sum(const Bytes& bytes) {
  return crc32_update(0xFFFF'FFFF, bytes.data(), bytes.size());
}

void change_at(Bytes& bytes, std::size_t at, std::uint16_t change) {
  bytes[at] ^= static_cast<std::byte>(change >> 8U);
  bytes[at + 1] ^= static_cast<std::byte>(change);
}

TEST(IcrcChange, equals_recomputing_at_every_distance) {
  Random random{1};
  Bytes bytes = random_bytes(random, kIcrcDistanceMax);
  const std::uint32_t before = sum(bytes);
  for (std::size_t distance = 4; distance <= kIcrcDistanceMax; distance += 4) {
    const auto change = static_cast<std::uint16_t>(random());
    const std::size_t at = bytes.size() - distance;
    change_at(bytes, at, change);
    ASSERT_EQ(icrc_change(change, distance), before ^ sum(bytes)) << distance;
    change_at(bytes, at, change);
  }
}

TEST(IcrcChange, is_solved_for_every_change) {
  for (const std::size_t distance : {4UL, 28UL, 56UL, 1'080UL, 4'148UL, 10'240UL}) {
    for (std::uint32_t change = 0; change <= 0xFFFF; ++change) {
      const auto wanted = static_cast<std::uint16_t>(change);
      ASSERT_EQ(solve_icrc_change(icrc_change(wanted, distance), distance), wanted);
    }
  }
}

// A difference that no change of the two bytes causes has no solution, except for one in 65,536.
TEST(IcrcChange, other_differences_have_no_solution) {
  Random random{2};
  constexpr int kRounds = 1'000'000;
  int answered = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::size_t distance = 4 + 4 * (random() % (kIcrcDistanceMax / 4));
    answered += solve_icrc_change(static_cast<std::uint32_t>(random()), distance) ? 1 : 0;
  }
  EXPECT_NEAR(answered, kRounds / 65'536.0, 20);
}

// A flipped bit elsewhere is never mistaken for a change of these two bytes.
TEST(IcrcChange, a_flipped_bit_elsewhere_has_no_solution) {
  Random random{3};
  Bytes bytes = random_bytes(random, 1'108);
  const std::uint32_t before = sum(bytes);
  constexpr std::size_t kAt = 4;
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    if (bit / 8 == kAt || bit / 8 == kAt + 1) {
      continue;
    }
    const auto flip = static_cast<std::byte>(1U << (bit % 8));
    bytes[bit / 8] ^= flip;
    ASSERT_FALSE(solve_icrc_change(before ^ sum(bytes), bytes.size() - kAt)) << bit;
    bytes[bit / 8] ^= flip;
  }
}

}  // namespace
}  // namespace uroce::test
