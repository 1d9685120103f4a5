// CRC-32 on any processor: eight bytes a step through eight tables ("slicing by 8").

#include <algorithm>
#include <cstring>

#include "dataplane/wire/crc/crc32.h"

namespace uroce {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB8'8320;
constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[k][b]: what byte b does to the register when k further bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1U) ^ ((remainder & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = remainder;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

std::uint32_t update(std::uint32_t state, const std::byte* bytes, std::size_t length) {
  while (length >= kSlices) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    word ^= state;
    state = kTables[7][word & 0xFFU] ^ kTables[6][(word >> 8U) & 0xFFU] ^
            kTables[5][(word >> 16U) & 0xFFU] ^ kTables[4][(word >> 24U) & 0xFFU] ^
            kTables[3][(word >> 32U) & 0xFFU] ^ kTables[2][(word >> 40U) & 0xFFU] ^
            kTables[1][(word >> 48U) & 0xFFU] ^ kTables[0][word >> 56U];
    bytes += kSlices;
    length -= kSlices;
  }
  for (; length > 0; --length, ++bytes) {
    state = (state >> 8U) ^ kTables[0][(state ^ static_cast<std::uint8_t>(*bytes)) & 0xFFU];
  }
  return state;
}

// The copy is summed, not the source, which somebody may be changing. Piecewise, so that the copy
// is still in the first-level cache. Too slow for reading ahead to matter.
std::uint32_t copy(std::uint32_t state, std::byte* destination, const std::byte* source,
                   std::size_t length, std::size_t /*ahead*/) {
  constexpr std::size_t kPiece = 4096;
  while (length > 0) {
    const std::size_t piece = std::min(length, kPiece);
    std::memcpy(destination, source, piece);
    state = update(state, destination, piece);
    destination += piece;
    source += piece;
    length -= piece;
  }
  return state;
}

std::uint32_t update_masked(std::uint32_t state, const std::byte* bytes, std::size_t length,
                            const CrcMask& mask) {
  CrcMask masked = mask;
  const std::size_t head = std::min(length, masked.size());
  for (std::size_t i = 0; i < head; ++i) {
    masked[i] |= bytes[i];
  }
  state = update(state, masked.data(), head);
  return update(state, bytes + head, length - head);
}

constexpr std::uint32_t times_x(std::uint32_t value) {
  return (value >> 1U) ^ ((0U - (value & 1U)) & kPolynomial);
}

constexpr unsigned kNibble = 4;
using Nibbles = std::array<std::uint32_t, 1U << kNibble>;

// What the lowest four bits become when they are moved out by four places, times x^4.
constexpr Nibbles kMovedOut = [] {
  Nibbles reduced{};
  for (std::uint32_t value = 0; value < reduced.size(); ++value) {
    reduced[value] = times_x(times_x(times_x(times_x(value))));
  }
  return reduced;
}();

// Horner's scheme over four bits at a time.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  Nibbles multiples{};  // of b, by four bits of which the highest is 1
  for (std::uint32_t bit = 8; bit != 0; bit /= 2, b = times_x(b)) {
    for (std::uint32_t upper = 0; upper < multiples.size(); upper += 2 * bit) {
      multiples[upper + bit] = multiples[upper] ^ b;
    }
  }
  constexpr unsigned kBits = 32;
  std::uint32_t product = 0;
  for (unsigned shift = 0; shift < kBits; shift += kNibble) {
    product = (product >> kNibble) ^ kMovedOut[product & 0xFU] ^ multiples[(a >> shift) & 0xFU];
  }
  return product;
}

}  // namespace

const Crc32Kernel kCrc32Portable{.name = "portable",
                                 .update = update,
                                 .copy = copy,
                                 .update_masked = update_masked,
                                 .multiply = multiply};

}  // namespace uroce
