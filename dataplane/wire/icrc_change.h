#pragma once

// What the ICRC changes by when two bytes of what it covers change. A CRC is linear: the difference
// between two sums depends only on the bytes that differ and on how far they stand from the end, so
// a header can be changed after the sum was made, and a field that isn't known can be solved for.
//
// A polynomial over GF(2) stands reflected in 32 bits: the highest bit is 1, the next one x.

#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce {

// Bytes from the two in question to the end of what is summed, themselves included.
inline constexpr std::size_t kIcrcDistanceMax = 10'240;

// `change`: exclusive or of the two bytes before and after, as a big-endian number. To be
// exclusive-ored with the ICRC's value. REQUIRES: distance is a multiple of 4, from 4 to
// kIcrcDistanceMax.
[[nodiscard]] std::uint32_t icrc_change(std::uint16_t change, std::size_t distance);

// The inverse: which change of the two bytes does this to the ICRC. Nothing: none does; of random
// differences one in 65,536 has an answer. REQUIRES: as above.
[[nodiscard]] std::optional<std::uint16_t> solve_icrc_change(std::uint32_t difference,
                                                             std::size_t distance);

}  // namespace uroce
