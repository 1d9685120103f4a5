#include "apps/console/words.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>

namespace uroce::console {

Words::Words(std::string_view line) {
  std::istringstream stream{std::string(line.substr(0, line.find('#')))};
  std::string text;
  while (stream >> text) {
    const std::size_t equals = text.find('=');
    Word word{.name = text.substr(0, equals), .value = {}};
    if (equals != std::string::npos) {
      word.value = text.substr(equals + 1);
      word.has_value = true;
    }
    words_.push_back(std::move(word));
  }
}

std::string Words::next_name() {
  for (Word& word : words_) {
    if (!word.used && !word.has_value) {
      word.used = true;
      return word.name;
    }
  }
  return {};
}

std::optional<std::string> Words::text(std::string_view name) {
  for (Word& word : words_) {
    if (!word.used && word.has_value && word.name == name) {
      word.used = true;
      return word.value;
    }
  }
  return std::nullopt;
}

std::string Words::text(std::string_view name, std::string_view otherwise) {
  return text(name).value_or(std::string(otherwise));
}

std::uint64_t Words::number(std::string_view name, std::uint64_t otherwise) {
  return parsed(name, std::to_string(otherwise), parse_number);
}

std::uint64_t Words::number(std::string_view name) {
  return parsed(name, "", [&](const std::string& text) {
    return text.empty() ? Result<std::uint64_t>(Error{EINVAL, std::string(name) + "= is missing"})
                        : parse_number(text);
  });
}

std::optional<std::uint64_t> Words::number_if_there(std::string_view name) {
  const auto value = text(name);
  return value ? std::optional(parsed("", *value, parse_number)) : std::nullopt;
}

bool Words::flag(std::string_view name) {
  for (Word& word : words_) {
    if (!word.used && !word.has_value && word.name == name) {
      word.used = true;
      return true;
    }
  }
  return false;
}

void Words::fail(const Error& error) {
  if (!error_) {
    error_ = error;
  }
}

Status Words::check() const {
  if (error_) {
    return *error_;
  }
  for (const Word& word : words_) {
    if (!word.used) {
      return Error{EINVAL, "`" + word.name + "` isn't understood here; see `help`"};
    }
  }
  return ok();
}

Result<std::uint64_t> parse_number(const std::string& text) {
  const bool hexadecimal = text.starts_with("0x");
  const char* const first = text.data() + (hexadecimal ? 2 : 0);
  const char* const last = text.data() + text.size();
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(first, last, number, hexadecimal ? 16 : 10);
  if (parsed.ec != std::errc{} || parsed.ptr != last) {
    return Error{EINVAL, "`" + text + "` is no number"};
  }
  return number;
}

Result<std::vector<std::byte>> parse_bytes(std::string_view hexadecimal) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size() + hexadecimal.size() % 2; i += 2) {
    const std::size_t high = kDigits.find(hexadecimal[i]);
    const std::size_t low =
        i + 1 < hexadecimal.size() ? kDigits.find(hexadecimal[i + 1]) : std::string_view::npos;
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return Error{EINVAL, "bytes are written with two digits each, 0-9 and a-f"};
    }
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

std::string bytes_text(const std::byte* bytes, std::size_t length) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned>(bytes[i]);
    text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return text;
}

std::string memory_text(const std::byte* bytes, std::uint64_t length,
                        std::optional<std::uint64_t> seed, std::uint64_t skip) {
  if (!seed) {
    return "length=" + std::to_string(length) +
           " bytes=" + bytes_text(bytes, std::min(length, kShownBytesMax)) + "\n";
  }
  for (std::uint64_t i = 0; i < length; ++i) {
    if (bytes[i] != pattern(*seed, i + skip)) {
      return "match=no first=" + std::to_string(i) + "\n";
    }
  }
  return "match=yes\n";
}

Result<Place> parse_place(const std::string& text) {
  Place place;
  const std::size_t colon = text.find(':');
  const std::size_t plus = text.substr(0, colon).find('+');
  place.region = text.substr(0, std::min(plus, colon));
  if (plus != std::string::npos) {
    const std::size_t end = colon == std::string::npos ? text.size() : colon;
    const auto offset = parse_number(text.substr(plus + 1, end - plus - 1));
    if (!offset) {
      return offset.error();
    }
    place.offset = *offset;
  }
  if (colon != std::string::npos) {
    const auto length = parse_number(text.substr(colon + 1));
    if (!length) {
      return length.error();
    }
    place.length = *length;
  }
  return place;
}

}  // namespace uroce::console
