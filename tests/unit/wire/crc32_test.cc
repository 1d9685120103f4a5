// CRC-32: every kernel against libdeflate, at every length up to a frame and beyond, at all
// relevant alignments, as a whole and in pieces.

#include "dataplane/wire/crc/crc32.h"

#include <gtest/gtest.h>
#include <libdeflate.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

constexpr std::size_t kLengthMax = 4200;

// libdeflate inverts the sum at the start and the end; the kernels don't.
std::uint32_t reference(std::uint32_t state, const std::byte* bytes, std::size_t length) {
  return ~libdeflate_crc32(~state, bytes, length);
}

class Crc32 : public testing::TestWithParam<const Crc32Kernel*> {
 protected:
  const Crc32Kernel& kernel_ = *GetParam();
  Random random_{20'261'121};
  Bytes bytes_ = random_bytes(random_, kLengthMax + 64);

  std::uint32_t random_state() { return static_cast<std::uint32_t>(random_()); }
};

TEST_P(Crc32, check_value_of_the_catalogue) {
  // "123456789" sums to 0xCBF43926 with CRC-32/ISO-HDLC.
  const auto* text = reinterpret_cast<const std::byte*>("123456789");
  EXPECT_EQ(~kernel_.update(0xFFFF'FFFF, text, 9), 0xCBF4'3926U);
}

TEST_P(Crc32, update_equals_libdeflate) {
  for (const std::size_t alignment : {0U, 1U, 2U, 4U, 7U, 8U, 15U, 16U, 33U}) {
    const std::byte* start = bytes_.data() + alignment;
    for (std::size_t length = 0; length <= kLengthMax; ++length) {
      const std::uint32_t state = random_state();
      ASSERT_EQ(kernel_.update(state, start, length), reference(state, start, length))
          << "length " << length << ", alignment " << alignment;
    }
  }
}

TEST_P(Crc32, copy_copies_and_equals_libdeflate) {
  Bytes copied(bytes_.size() + 64);
  constexpr std::byte kGuard{0xA5};
  for (const auto& [from, to] : {std::pair{0, 0}, {1, 2}, {3, 54}, {8, 58}, {15, 15}, {33, 7}}) {
    const std::byte* source = bytes_.data() + from;
    std::byte* destination = copied.data() + to;
    for (std::size_t length = 0; length <= kLengthMax; ++length) {
      const std::uint32_t state = random_state();
      std::fill(copied.begin(), copied.end(), kGuard);
      ASSERT_EQ(kernel_.copy(state, destination, source, length, length % 3 * 4096),
                reference(state, source, length))
          << "length " << length << ", from " << from << ", to " << to;
      ASSERT_TRUE(std::equal(source, source + length, destination)) << "length " << length;
      // Nothing before or after the destination was written.
      ASSERT_EQ(std::count(copied.data(), destination, kGuard), to);
      ASSERT_EQ(std::count(destination + length, destination + length + 64, kGuard), 64);
    }
  }
}

TEST_P(Crc32, masked_update_sums_the_bytes_ored_with_the_mask) {
  const Bytes mask_bytes = random_bytes(random_, CrcMask{}.size());
  CrcMask mask;
  std::copy(mask_bytes.begin(), mask_bytes.end(), mask.begin());
  for (const std::size_t alignment : {0U, 1U, 14U, 18U}) {
    Bytes masked(bytes_.begin() + static_cast<std::ptrdiff_t>(alignment), bytes_.end());
    for (std::size_t i = 0; i < mask.size(); ++i) {
      masked[i] |= mask[i];
    }
    for (std::size_t length = 16; length <= kLengthMax; ++length) {
      const std::uint32_t state = random_state();
      ASSERT_EQ(kernel_.update_masked(state, bytes_.data() + alignment, length, mask),
                reference(state, masked.data(), length))
          << "length " << length << ", alignment " << alignment;
    }
  }
}

TEST_P(Crc32, touches_nothing_outside) {
  // Allocations of exactly this length, so that AddressSanitizer sees any access outside.
  for (std::size_t length = 0; length <= 300; ++length) {
    const Bytes exact(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(length));
    Bytes copied(length);
    const std::uint32_t expected = reference(0, bytes_.data(), length);
    ASSERT_EQ(kernel_.update(0, exact.data(), length), expected);
    ASSERT_EQ(kernel_.copy(0, copied.data(), exact.data(), length, 4096), expected);
    ASSERT_EQ(copied, exact);
  }
}

TEST_P(Crc32, a_sum_in_pieces_equals_the_whole) {
  for (int round = 0; round < 500; ++round) {
    const std::size_t length = random_() % kLengthMax;
    std::uint32_t state = 0;
    for (std::size_t at = 0; at < length;) {
      const std::size_t piece = std::min<std::size_t>(length - at, 1 + random_() % 700);
      state = kernel_.update(state, bytes_.data() + at, piece);
      at += piece;
    }
    ASSERT_EQ(state, reference(0, bytes_.data(), length));
  }
}

// Programs may write to a buffer that is being sent. The bytes sent are then undefined, but the CRC
// matches them.
TEST_P(Crc32, the_sum_of_a_changing_source_matches_the_copy) {
  std::atomic<bool> done{false};
  std::thread program([&] {
    for (std::uint8_t value = 0; !done.load(std::memory_order_relaxed); ++value) {
      volatile std::byte* byte = bytes_.data();
      for (std::size_t i = 0; i < kLengthMax; ++i) {
        byte[i] = std::byte{value};
      }
    }
  });
  Bytes copied(kLengthMax);
  std::size_t wrong = 0;
  for (std::size_t round = 0; round < 20'000; ++round) {
    const std::size_t length = round % 4 == 0 ? kLengthMax - round % 64 : round % 400;
    const std::uint32_t sum = kernel_.copy(0, copied.data(), bytes_.data(), length, 0);
    wrong += sum == reference(0, copied.data(), length) ? 0U : 1U;
  }
  done = true;
  program.join();
  EXPECT_EQ(wrong, 0U);
}

// Multiplying by x to the power 8 n has the same effect on the register as n more zero bytes.
TEST_P(Crc32, multiplying_by_a_power_of_x_equals_summing_zeroes) {
  constexpr std::uint32_t kOne = 0x8000'0000;
  const Bytes zeroes(2'000);
  for (std::size_t length = 0; length < zeroes.size(); ++length) {
    const std::uint32_t state = random_state();
    const std::uint32_t power = reference(kOne, zeroes.data(), length);
    ASSERT_EQ(kernel_.multiply(state, power), reference(state, zeroes.data(), length)) << length;
    ASSERT_EQ(kernel_.multiply(power, state), reference(state, zeroes.data(), length)) << length;
  }
  EXPECT_EQ(kernel_.multiply(0, random_state()), 0U);
}

INSTANTIATE_TEST_SUITE_P(kernels, Crc32,
                         testing::ValuesIn(crc32_kernels().begin(), crc32_kernels().end()),
                         [](const auto& instance) { return std::string(instance.param->name); });

TEST(Crc32Choice, a_usable_kernel_is_in_use_and_another_can_be_chosen) {
  const Crc32Kernel& chosen = crc32_kernel();
  EXPECT_EQ(std::ranges::count(crc32_kernels(), &chosen), 1);
  EXPECT_EQ(&chosen == &kCrc32Portable, crc32_kernels().size() == 1);
  set_crc32_kernel(kCrc32Portable);
  EXPECT_EQ(&crc32_kernel(), &kCrc32Portable);
  set_crc32_kernel(chosen);
}

TEST(Crc32Choice, the_cheapest_is_chosen_at_any_position) {
  std::array<Crc32Kernel, 3> kernels;
  kernels.fill(kCrc32Portable);
  kernels[0].name = "30";
  kernels[1].name = "10";
  kernels[2].name = "20";
  const std::array<const Crc32Kernel*, 3> list{&kernels[0], &kernels[1], &kernels[2]};
  const auto cost = [](const Crc32Kernel& kernel) -> std::uint64_t {
    return std::stoull(std::string(kernel.name));
  };
  EXPECT_EQ(&cheapest_crc32_kernel(list, cost), &kernels[1]);
  EXPECT_EQ(&cheapest_crc32_kernel(std::span(list).first(1), cost), &kernels[0]);
}

}  // namespace
}  // namespace uroce::test
