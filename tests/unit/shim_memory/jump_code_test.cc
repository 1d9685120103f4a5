#include "verbs_shim/memory/hooks/jump_code.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/shim_memory/foreign_jump.h"

namespace uroce::test {
namespace {

using shim::Code;

// Of the furthest reach that is used, in both directions.
TEST(JumpCode, NearJumpsLeadWhereTheySay) {
  // Nothing is loaded or stored there.
  auto* const from = reinterpret_cast<Code*>(std::uintptr_t{0x4000'0000'0000});
  const auto reach = static_cast<std::ptrdiff_t>(shim::kNearMax);
  for (const std::ptrdiff_t distance : {std::ptrdiff_t{16}, std::ptrdiff_t{-4096}, reach, -reach}) {
    alignas(4) std::array<Code, 8> here{};
    shim::write_near_jump(here.data(), from, from + distance);
    EXPECT_EQ(shim::jump_target(here.data()) - here.data(), distance);
  }
}

TEST(JumpCode, JumpsOfOtherLibrariesAreRecognised) {
  static int target = 0;
  auto one = foreign_jump(&target);
  EXPECT_EQ(shim::jump_target(reinterpret_cast<Code*>(one.data())),
            reinterpret_cast<Code*>(&target));
  auto other = other_foreign_jump(&target);
  EXPECT_EQ(shim::jump_target(reinterpret_cast<Code*>(other.data())),
            reinterpret_cast<Code*>(&target));
}

TEST(JumpCode, WhatIsNoJumpHasNoTarget) {
  alignas(4) std::array<Code, 32> none{};
  EXPECT_EQ(shim::jump_target(none.data()), nullptr);
  static int target = 0;
  auto half = foreign_jump(&target);
  auto* const bytes = reinterpret_cast<Code*>(half.data());
  bytes[sizeof(half) - 1] = 0;  // the jump itself is missing
  EXPECT_EQ(shim::jump_target(bytes), nullptr);
}

TEST(JumpCode, TheFirstInstructionComesBehindTheMark) {
#if defined(__x86_64__)
  alignas(4) std::array<Code, 8> marked{0xf3, 0x0f, 0x1e, 0xfa, 0xb8};  // endbr64
#else
  alignas(4) std::array<Code, 8> marked{0x5f, 0x24, 0x03, 0xd5, 0xe8};  // bti c
#endif
  EXPECT_EQ(shim::first_instruction(marked.data()), marked.data() + 4);
  marked[0] = 0;
  EXPECT_EQ(shim::first_instruction(marked.data()), marked.data());
}

}  // namespace
}  // namespace uroce::test
