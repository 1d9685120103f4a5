#pragma once

// How much address space this process has, for tests that limit it.

#include <cstddef>
#include <cstdio>

namespace uroce {

// Bytes; 0: /proc doesn't say.
inline std::size_t address_space() {
  std::size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re"); file != nullptr) {
    if (std::fscanf(file, "%zu", &pages) != 1) {
      pages = 0;
    }
    std::fclose(file);
  }
  return pages * 4096;
}

}  // namespace uroce
