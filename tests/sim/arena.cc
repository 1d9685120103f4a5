#include "tests/sim/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace uroce::sim {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr std::byte kLeftBehind{0xEE};

}  // namespace

Arena::Arena(std::size_t bytes)
    : shadow(bytes, kUntouched),
      file_(::memfd_create("sim", MFD_CLOEXEC)),
      places_((bytes + kPage - 1) / kPage),
      free_(places_.size()),
      uncertain_(bytes, false) {
  std::iota(places_.begin(), places_.end(), 0);
  std::iota(free_.begin(), free_.end(), places_.size());
  UROCE_CHECK(::ftruncate(file_.get(), static_cast<off_t>(2 * pages() * kPage)) == 0);
  void* const start =
      ::mmap(nullptr, pages() * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  UROCE_CHECK(start != MAP_FAILED);
  memory = {static_cast<std::byte*>(start), bytes};
  std::fill(memory.begin(), memory.end(), kUntouched);
}

Arena::~Arena() { ::munmap(memory.data(), pages() * kPage); }

void Arena::move(std::size_t page) {
  std::byte* const here = memory.data() + page * kPage;
  const auto old = static_cast<off_t>(std::exchange(places_[page], free_.front()) * kPage);
  const auto made = static_cast<off_t>(free_.front() * kPage);
  free_.erase(free_.begin());
  free_.push_back(static_cast<std::size_t>(old) / kPage);
  UROCE_CHECK(::pwrite(file_.get(), here, kPage, made) == static_cast<ssize_t>(kPage));
  UROCE_CHECK(::mmap(here, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_.get(),
                     made) != MAP_FAILED);
  std::array<std::byte, kPage> spoilt;
  spoilt.fill(kLeftBehind);
  UROCE_CHECK(::pwrite(file_.get(), spoilt.data(), kPage, old) == static_cast<ssize_t>(kPage));
}

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
