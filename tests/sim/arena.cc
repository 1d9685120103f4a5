#include "tests/sim/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace uroce::sim {
namespace {

constexpr std::byte kUntouched{0xA5};
constexpr std::byte kLeftBehind{0xEE};

// The memory is placed at the first free one of these addresses. A card's behaviour depends on
// where the boundaries of chunks and segments fall, and a seed must be repeatable. They are below
// the addresses that the kernel chooses (unless vm.mmap_rnd_bits is more than 28, when it may
// rarely take one of them), and in a range that sanitizers allow programs to map.
constexpr std::uintptr_t kFirstPlace = 0x7e9000000000;
constexpr std::uintptr_t kPlaceBytes = std::uintptr_t{1} << 30;
constexpr std::uintptr_t kPlacesMax = 256;

std::byte* map_at_known_place(int file, std::size_t bytes) {
  UROCE_CHECK(bytes <= kPlaceBytes);
  for (std::uintptr_t i = 0;; ++i) {
    UROCE_CHECK(i < kPlacesMax);
    void* const place = reinterpret_cast<void*>(kFirstPlace + i * kPlaceBytes);
    void* const start =
        ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
    if (start != MAP_FAILED) {
      UROCE_CHECK(start == place);
      return static_cast<std::byte*>(start);
    }
    UROCE_CHECK(errno == EEXIST);
  }
}

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
  memory = {map_at_known_place(file_.get(), pages() * kPage), bytes};
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
