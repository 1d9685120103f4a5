#pragma once

// Formats the difference of two status reports as lines of text.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace uroce::top {

// By which column queue pairs are sorted, largest first; of limits the slowest, and then those that
// have none.
enum class SortBy : std::uint8_t {
  kSent,
  kReceived,
  kResent,
  kRnr,
  kMarked,
  kNumber,
  kOutstanding,
  kLatency,
  kLimit
};
inline constexpr std::size_t kSortCount = 9;

struct ViewOptions {
  bool ports = true, workers = true, latency = true, users = true, programs = true,
       queue_pairs = true;
  SortBy sort = SortBy::kSent;
};

// Rows of users, of programs and of queue pairs, each; the others are counted.
inline constexpr std::size_t kRowsMax = 1'000;

// `seconds` lie between the two. Without an earlier report, or where a counter began anew, rates
// are 0.
[[nodiscard]] std::vector<std::string> view_lines(const nlohmann::ordered_json& before,
                                                  const nlohmann::ordered_json& now, double seconds,
                                                  const ViewOptions& shown,
                                                  std::size_t rows_max = kRowsMax);

[[nodiscard]] const char* name(SortBy sort);

}  // namespace uroce::top
