#pragma once

// Private memory of which every byte shows whether it was dropped.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::test {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kWords = kPage / sizeof(std::uint64_t);

inline std::uint64_t* map_filled(std::size_t length) {
  void* const memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  std::memset(memory, 0xff, length);
  return static_cast<std::uint64_t*>(memory);
}

}  // namespace uroce::test
