#pragma once

// A fuzzer's input as a stream of choices. Past its end everything is 0.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace uroce::test {

class ByteSource {
 public:
  ByteSource(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }

  template <typename Integer>
  Integer take() {
    Integer value{};
    const std::size_t count = std::min(sizeof(value), bytes_.size());
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }

  // At most `limit` - 1.
  std::uint32_t below(std::uint32_t limit) { return take<std::uint16_t>() % limit; }
  bool flag() { return (take<std::uint8_t>() & 1U) != 0; }

  std::span<const std::uint8_t> bytes(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace uroce::test
