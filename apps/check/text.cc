#include "apps/check/text.h"

#include <array>
#include <cinttypes>
#include <cstdio>

namespace uroce::check {

std::string milliseconds(Duration duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f ms",
                static_cast<double>(duration) / static_cast<double>(kNanosecondsPerMillisecond));
  return text.data();
}

const char* type_name(Transport transport) {
  switch (transport) {
    case Transport::kRc:
      return "RC";
    case Transport::kUc:
      return "UC";
    case Transport::kUd:
      return "UD";
    case Transport::kXrc:
      return "XRC";
    default:
      return "?";
  }
}

std::string hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%#" PRIx64, value);
  return text.data();
}

std::string psns(std::uint32_t first, std::uint32_t last) {
  return "PSN " + std::to_string(first) + (first == last ? "" : " to " + std::to_string(last));
}

}  // namespace uroce::check
