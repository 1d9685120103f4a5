#pragma once

// A console command as words: a verb, then names and name=value pairs. Numbers are decimal or 0x...

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace uroce::console {

class Words {
 public:
  explicit Words(std::string_view line);

  [[nodiscard]] bool empty() const { return words_.empty(); }
  // The first word; later calls give the following ones that have no '='. Empty when there is none.
  std::string next_name();

  // The value of name=, or what is given for its absence. A value that can't be read is
  // remembered for check(). Each marks the word as understood.
  std::optional<std::string> text(std::string_view name);
  std::string text(std::string_view name, std::string_view otherwise);
  std::uint64_t number(std::string_view name, std::uint64_t otherwise);
  std::uint64_t number(std::string_view name);  // must be there
  std::optional<std::uint64_t> number_if_there(std::string_view name);
  // What `parse` makes of the value; of `otherwise` if there is none.
  template <typename Parse>
  auto parsed(std::string_view name, std::string_view otherwise, Parse&& parse) {
    auto result = parse(text(name, otherwise));
    if (!result) {
      fail(result.error());
      return std::remove_cvref_t<decltype(*result)>{};
    }
    return *result;
  }
  // Whether the bare word `name` is there.
  bool flag(std::string_view name);

  void fail(const Error& error);
  // After all that is to be read was read and before anything is done: what couldn't be read, or
  // the first word that wasn't read.
  [[nodiscard]] Status check() const;

 private:
  struct Word {
    std::string name, value;
    bool has_value = false;
    bool used = false;
  };
  std::vector<Word> words_;
  std::optional<Error> error_;
};

// EINVAL: "`what` is no number".
Result<std::uint64_t> parse_number(const std::string& text);

// "00ff": two digits a byte, 0-9 and a-f.
Result<std::vector<std::byte>> parse_bytes(std::string_view hexadecimal);

[[nodiscard]] std::string bytes_text(const std::byte* bytes, std::size_t length);

// What `memory` answers of `length` bytes: whether they are the pattern of a seed from byte `skip`
// on, or, without a seed, what they are (the first kShownBytesMax of them).
inline constexpr std::uint64_t kShownBytesMax = 65'536;
[[nodiscard]] std::string memory_text(const std::byte* bytes, std::uint64_t length,
                                      std::optional<std::uint64_t> seed, std::uint64_t skip);

// The pattern of a seed, as in the conformance corpus: byte i.
inline std::byte pattern(std::uint64_t seed, std::uint64_t i) {
  return static_cast<std::byte>(seed * 37 + i * 7 + (i >> 8U) * 3);
}

// A place in a region: "A+16:64" is 64 bytes from byte 16 of A on; offset and length may be left
// out.
struct Place {
  std::string region;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length{};
};
Result<Place> parse_place(const std::string& text);

}  // namespace uroce::console
