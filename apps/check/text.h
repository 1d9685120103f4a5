#pragma once

// How numbers and names read in a sentence.

#include <cstdint>
#include <string>

#include "base/time.h"
#include "dataplane/wire/opcode.h"

namespace uroce::check {

[[nodiscard]] std::string milliseconds(Duration duration);  // "0.012 ms"
[[nodiscard]] const char* type_name(Transport transport);   // "RC"
[[nodiscard]] std::string hex(std::uint64_t value);
[[nodiscard]] std::string psns(std::uint32_t first, std::uint32_t last);  // "PSN 5", "PSN 5 to 7"

}  // namespace uroce::check
