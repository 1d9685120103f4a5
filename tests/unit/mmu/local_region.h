#pragma once

// Regions of the test's own memory.

#include <cstddef>
#include <memory>
#include <vector>

#include "mmu/region.h"

namespace uroce::test {

inline constexpr PdId kPd = 7;
inline constexpr std::uint64_t kIova = 0x10000;

inline std::unique_ptr<Region> local_region(std::byte* host, std::uint64_t length,
                                            std::uint64_t iova = 0x1000, PdId pd = 1,
                                            std::uint32_t access = 0) {
  Region::Config config;
  config.pd = pd;
  config.access = access;
  config.iova = iova;
  config.length = length;
  config.pieces = {{.start = 0, .length = length, .host = host, .remote_address = iova}};
  return std::make_unique<Region>(std::move(config));
}

}  // namespace uroce::test
