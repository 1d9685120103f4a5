// Carry-less algebra modulo the CRC's polynomial. Two bytes at distance d, as a reflected number in
// the low half of the register, reach the end multiplied by x^(8 d).

#include "dataplane/wire/icrc_change.h"

#include <array>

#include "base/check.h"
#include "dataplane/wire/crc/crc32.h"

namespace uroce {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB8'8320;
constexpr std::uint32_t kOne = 0x8000'0000;
constexpr unsigned kBitsPerStep = 32;  // distances are multiples of 4 bytes
constexpr unsigned kHalf = 16;         // bits of the two bytes

constexpr std::uint32_t times_x(std::uint32_t value) {
  return (value >> 1U) ^ ((0U - (value & 1U)) & kPolynomial);
}

// The polynomial's constant term is 1, so x has an inverse.
constexpr std::uint32_t over_x(std::uint32_t value) {
  return (value & kOne) != 0 ? ((value ^ kPolynomial) << 1U) | 1U : value << 1U;
}

using Powers = std::array<std::uint32_t, kIcrcDistanceMax / 4 + 1>;

template <typename Step>
constexpr Powers make_powers(std::uint32_t value, Step step) {
  Powers powers{};
  for (std::uint32_t& power : powers) {
    power = value;
    for (unsigned bit = 0; bit < kBitsPerStep; ++bit) {
      value = step(value);
    }
  }
  return powers;
}

constexpr std::uint32_t x_to_the_half() {
  std::uint32_t value = kOne;
  for (unsigned bit = 0; bit < kHalf; ++bit) {
    value = times_x(value);
  }
  return value;
}

// By distance in words of 4 bytes: where the highest of the 16 bits gets to, x^(8 d + 16), and the
// way back, x^(-8 d).
constexpr Powers kForward = make_powers(x_to_the_half(), times_x);
constexpr Powers kBack = make_powers(kOne, over_x);

std::size_t words(std::size_t distance) {
  UROCE_CHECK(distance % 4 == 0 && distance >= 4 && distance <= kIcrcDistanceMax);
  return distance / 4;
}

}  // namespace

std::uint32_t icrc_change(std::uint16_t change, std::size_t distance) {
  const std::uint32_t reflected = std::uint32_t{__builtin_bswap16(change)} << kHalf;
  // The low half of the register is x^16 and up, which the table has already.
  return crc32_kernel().multiply(reflected, kForward[words(distance)]);
}

std::optional<std::uint16_t> solve_icrc_change(std::uint32_t difference, std::size_t distance) {
  const std::uint32_t reflected = crc32_kernel().multiply(difference, kBack[words(distance)]);
  if (reflected >> kHalf != 0) {
    return std::nullopt;
  }
  return __builtin_bswap16(static_cast<std::uint16_t>(reflected));
}

}  // namespace uroce
