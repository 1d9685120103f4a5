// Each byte of a copy is stored once, after those in front of it: a program that takes a flag back
// as soon as it sees it doesn't find it again. The copies are made step by step: after each
// instruction the test sees what has been stored, and takes it back as such a program would.

#include <gtest/gtest.h>
#include <signal.h>
#include <x86intrin.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/sanitized.h"
#include "mmu/copies/forward_copy.h"
#include "mmu/copies/small_copy.h"

namespace uroce::test {
namespace {

constexpr std::size_t kSteppedMax = 1'024;
constexpr std::byte kNothing{0};
constexpr std::byte kTaken{0xFF};  // neither this nor kNothing is ever copied

// What is being copied; the signal handler changes it.
struct Stepped {
  std::byte* destination = nullptr;
  std::size_t length = 0;
  std::size_t stored = 0;  // bytes so far
  std::size_t steps = 0;   // instructions
  bool in_order = true;
};
Stepped stepped;

void after_instruction(int /*number*/, siginfo_t* /*info*/, void* /*context*/) {
  ++stepped.steps;
  const std::size_t before = stepped.stored;
  for (std::size_t i = 0; i < stepped.length; ++i) {
    std::byte& byte = stepped.destination[i];
    if (byte == kNothing || byte == kTaken) {
      continue;
    }
    stepped.in_order = stepped.in_order && i >= before && i == stepped.stored;
    ++stepped.stored;
    byte = kTaken;
  }
}

class SteppedCopies : public testing::Test {
 protected:
  SteppedCopies() {
    struct sigaction action = {};
    action.sa_sigaction = after_instruction;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    EXPECT_EQ(sigaction(SIGTRAP, &action, &before_), 0);
    for (std::size_t i = 0; i < source_.size(); ++i) {
      source_[i] = static_cast<std::byte>(i % 250 + 1);
    }
  }
  ~SteppedCopies() override { sigaction(SIGTRAP, &before_, nullptr); }

  void SetUp() override {
    if (kSanitized) {
      GTEST_SKIP() << "a sanitizer's copies have an order of their own";
    }
  }

  void expect_once_in_order(ForwardCopy copy, std::size_t length, std::size_t at) {
    constexpr std::uint64_t kTrapFlag = 0x100;
    destination_.fill(kNothing);
    stepped = {.destination = destination_.data() + at, .length = length};
    __writeeflags(__readeflags() | kTrapFlag);
    const bool copied = copy(destination_.data() + at, source_.data() + 3, length);
    __writeeflags(__readeflags() & ~kTrapFlag);
    ASSERT_TRUE(copied);
    ASSERT_NE(stepped.steps, 0U);
    ASSERT_TRUE(stepped.in_order) << length << " bytes to " << at;
    ASSERT_EQ(stepped.stored, length) << "to " << at;
  }

  struct sigaction before_ = {};
  std::vector<std::byte> source_ = std::vector<std::byte>(kSteppedMax + 64);
  alignas(64) std::array<std::byte, kSteppedMax + 64> destination_{};
};

TEST_F(SteppedCopies, OfAPacketStoreEachByteOnce) {
  for (const ForwardCopy copy : forward_copies()) {
    for (const std::size_t length :
         std::to_array<std::size_t>({64, 65, 96, 100, 127, 128, 255, 500, 1'024})) {
      for (std::size_t at = 0; at < 64; at += 9) {
        ASSERT_NO_FATAL_FAILURE(expect_once_in_order(copy, length, at));
      }
    }
  }
}

TEST_F(SteppedCopies, OfAFewBytesStoreEachByteOnce) {
  for (std::size_t length = 1; length <= kSmallCopyMax; ++length) {
    for (const std::size_t at : std::to_array<std::size_t>({0, 1, 7, 60})) {
      ASSERT_NO_FATAL_FAILURE(expect_once_in_order(copy_small, length, at));
    }
  }
}

}  // namespace
}  // namespace uroce::test
