#include "apps/report/html.h"

#include <algorithm>
#include <cstdio>

namespace uroce::report {
namespace {

constexpr double kThousand = 1'000;
constexpr std::size_t kUnbrokenMax = 32;  // characters of a cell that stays on one line
constexpr unsigned char kFirstPrintable = 0x20, kDelete = 0x7F;

bool is_number(const std::string& text) {
  return !text.empty() && std::count(text.begin(), text.end(), '.') <= 1 &&
         std::all_of(text.begin(), text.end(), [](char letter) {
           return (letter >= '0' && letter <= '9') || letter == '.' || letter == '-';
         });
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((code < kFirstPrintable && letter != '\n' && letter != '\t') || code == kDelete) {
          out += "\xEF\xBF\xBD";
        } else {
          out += letter;
        }
    }
  }
  return out;
}

// With what is no UTF-8 replaced: a page has to be UTF-8 throughout.
std::string plain(const nlohmann::ordered_json& value) {
  if (value.is_null()) {
    return {};
  }
  std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (!value.is_string()) {
    return text;
  }
  const auto clean = nlohmann::ordered_json::parse(text, nullptr, false);
  return clean.is_string() ? clean.get<std::string>() : std::string();
}

std::string plain(const nlohmann::ordered_json& object, const char* member) {
  return object.is_object() && object.contains(member) ? plain(object[member]) : std::string();
}

std::string microseconds(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", nanoseconds / kThousand);
  return text;
}

std::string table(const Row& head, const std::vector<Row>& rows) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (std::size_t i = 0; i < head.size(); ++i) {
    const bool numbers = std::any_of(rows.begin(), rows.end(), [i](const Row& row) {
      return i < row.size() && is_number(row[i]);
    });
    std::string name = head[i];  // may be broken over lines between its words
    std::replace(name.begin(), name.end(), '_', ' ');
    out += (numbers ? "<th class=\"n\">" : "<th>") + escaped(name) + "</th>";
  }
  out += "</tr></thead><tbody>\n";
  for (const Row& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) {
      out += (is_number(cell)              ? "<td class=\"n\">"
              : cell.size() > kUnbrokenMax ? "<td class=\"long\">"
                                           : "<td>") +
             escaped(cell) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace uroce::report
