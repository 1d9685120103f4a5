#include "apps/top/cells.h"

#include <algorithm>
#include <utility>

namespace uroce::top {
const Json& member(const Json& object, const char* name) {
  static const Json none;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : none;
}

double number(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::string text(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

PreviousReport::PreviousReport(const Json& list, const char* key) : key_(key) {
  for (const Json& one : list) {
    by_key_[text(one, key)] = &one;
  }
}

const Json& PreviousReport::of(const Json& one) const {
  static const Json none;
  const auto found = by_key_.find(text(one, key_));
  return found == by_key_.end() ? none : *found->second;
}

double rate(const Json& before, const Json& now, const char* name, double seconds) {
  const Json& old = member(before, name);
  const double growth = number(now, name) - (old.is_number() ? old.get<double>() : 0);
  return old.is_number() && seconds > 0 ? std::max(0.0, growth / seconds) : 0;
}

double rate_sent(const Json& before, const Json& now, double seconds) {
  return rate(before, now, "bytes_sent", seconds) + rate(before, now, "direct_bytes", seconds);
}

void add_ranked(std::vector<Ranked> rows, std::size_t rows_max, const char* what, Lines& lines) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Ranked& a, const Ranked& b) { return a.rank > b.rank; });
  for (std::size_t i = 0; i < std::min(rows.size(), rows_max); ++i) {
    lines.push_back(std::move(rows[i].line));
  }
  if (rows.size() > rows_max) {
    lines.push_back("and " + std::to_string(rows.size() - rows_max) + " " + what);
  }
}

}  // namespace uroce::top
