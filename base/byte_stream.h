#pragma once

// Reading and writing big-endian bytes of the small protocols that control speaks. A reader that
// runs out of bytes reads zeroes and says so at the end, so that a parser checks once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace uroce {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u24() { return number(3); }
  std::uint32_t u32() { return number(4); }
  std::uint64_t u64() {
    const std::uint64_t upper = number(4);
    return upper << 32U | number(4);
  }
  void skip(std::size_t count) { take(count); }
  template <std::size_t kSize>
  void read(std::uint8_t (&target)[kSize]) {
    read(target, kSize);
  }
  template <typename Array>
  void read(Array& target) {
    read(target.data(), target.size());
  }

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  std::uint32_t number(std::size_t count) {
    std::uint32_t value = 0;
    for (const std::byte byte : take(count)) {
      value = value << 8U | static_cast<std::uint32_t>(byte);
    }
    return value;
  }
  void read(std::uint8_t* target, std::size_t count) {
    const auto taken = take(count);
    std::fill_n(target, count, std::uint8_t{0});
    std::transform(taken.begin(), taken.end(), target,
                   [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  }

  std::span<const std::byte> rest_;
  bool failed_ = false;
};

class ByteWriter {
 public:
  void u8(std::uint32_t value) { number(value, 1); }
  void u16(std::uint32_t value) { number(value, 2); }
  void u24(std::uint32_t value) { number(value, 3); }
  void u32(std::uint32_t value) { number(value, 4); }
  void u64(std::uint64_t value) {
    number(static_cast<std::uint32_t>(value >> 32U), 4);
    number(static_cast<std::uint32_t>(value), 4);
  }
  template <typename Array>
  void write(const Array& bytes) {
    for (const auto byte : bytes) {
      bytes_.push_back(static_cast<std::byte>(byte));
    }
  }
  void store_u16(std::size_t offset, std::uint32_t value) {
    bytes_[offset] = static_cast<std::byte>(value >> 8U);
    bytes_[offset + 1] = static_cast<std::byte>(value);
  }

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> from(std::size_t offset) const {
    return std::span(bytes_).subspan(offset);
  }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void number(std::uint32_t value, unsigned count) {
    for (unsigned i = count; i > 0; --i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8U * (i - 1))));
    }
  }
  std::vector<std::byte> bytes_;
};

}  // namespace uroce
