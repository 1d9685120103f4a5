#include "control/cm_user/free_ports.h"

#include <gtest/gtest.h>

namespace uroce::control::cm_user {
namespace {

TEST(FreePorts, AreFoundFromAnyOneOn) {
  const FreePorts ports;
  for (std::uint32_t first = 0; first < FreePorts::kCount; ++first) {
    ASSERT_EQ(ports.next(first), FreePorts::kMin + first);
  }
}

TEST(FreePorts, TheLastIsFollowedByTheFirst) {
  FreePorts ports;
  ports.take(FreePorts::kMax);
  EXPECT_EQ(ports.next(FreePorts::kCount - 1), FreePorts::kMin);
  ports.give_back(FreePorts::kMax);
  EXPECT_EQ(ports.next(FreePorts::kCount - 1), FreePorts::kMax);
}

// In the word where the search begins, before it.
TEST(FreePorts, TheOnlyOneIsFoundFromEverywhere) {
  FreePorts ports;
  constexpr std::uint16_t kOnly = FreePorts::kMin + 70;
  for (std::uint32_t index = 0; index < FreePorts::kCount; ++index) {
    ports.take(static_cast<std::uint16_t>(FreePorts::kMin + index));
  }
  EXPECT_FALSE(ports.next(0));
  EXPECT_FALSE(ports.next(FreePorts::kCount - 1));
  ports.give_back(kOnly);
  for (const std::uint32_t first : {0U, 69U, 70U, 71U, 127U, 128U, FreePorts::kCount - 1}) {
    EXPECT_EQ(ports.next(first), kOnly) << first;
  }
}

TEST(FreePorts, OtherPortsAreNotEphemeral) {
  EXPECT_FALSE(FreePorts::contains(FreePorts::kMin - 1));
  EXPECT_TRUE(FreePorts::contains(FreePorts::kMin));
  EXPECT_TRUE(FreePorts::contains(FreePorts::kMax));
  EXPECT_FALSE(FreePorts::contains(FreePorts::kMax + 1));
}

}  // namespace
}  // namespace uroce::control::cm_user
