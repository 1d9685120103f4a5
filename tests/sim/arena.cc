#include "tests/sim/arena.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/check.h"

namespace uroce::sim {
namespace {

constexpr std::byte kUntouched{0xA5};

}  // namespace

Arena::Arena(std::size_t bytes)
    : memory(bytes, kUntouched), shadow(bytes, kUntouched), uncertain_(bytes, false) {}

std::size_t Arena::reserve(std::size_t bytes) {
  const std::size_t offset = reserved_;
  reserved_ += (bytes + 63) / 64 * 64;
  UROCE_CHECK(reserved_ <= memory.size());
  return offset;
}

void Arena::write(std::size_t offset, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), memory.data() + offset);
  expect(offset, bytes);
}

void Arena::expect(std::size_t offset, std::span<const std::byte> bytes) {
  std::copy(bytes.begin(), bytes.end(), shadow.data() + offset);
}

void Arena::forget(std::size_t offset, std::size_t length) {
  std::fill_n(uncertain_.begin() + static_cast<std::ptrdiff_t>(offset), length, true);
}

bool Arena::holds(std::size_t offset, std::span<const std::byte> bytes) const {
  return std::equal(bytes.begin(), bytes.end(), memory.data() + offset);
}

std::string Arena::compare() const {
  if (std::memcmp(memory.data(), shadow.data(), memory.size()) == 0) {
    return {};
  }
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != shadow[i] && !uncertain_[i]) {
      return "byte " + std::to_string(i) + " is " +
             std::to_string(std::to_integer<int>(memory[i])) + ", should be " +
             std::to_string(std::to_integer<int>(shadow[i]));
    }
  }
  return {};
}

}  // namespace uroce::sim
