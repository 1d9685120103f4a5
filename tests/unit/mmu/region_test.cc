#include "mmu/region.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/mmu/local_region.h"

namespace uroce::test {
namespace {

TEST(Region, OnePieceIsOneSpan) {
  std::array<std::byte, 4096> memory;
  const auto region = local_region(memory.data(), memory.size(), 0x10000);
  Span span;
  ASSERT_EQ(region->translate(0x10010, 4080, false, &span), Access::kGranted);
  EXPECT_EQ(span.host, memory.data() + 0x10);
  EXPECT_EQ(span.length, 4080U);
  EXPECT_EQ(span.remote_address, 0x10010U);
}

TEST(Region, ManyPiecesAreWalkedSpanBySpan) {
  std::array<std::byte, 100> memory;
  Region::Config config;
  config.iova = 500;
  config.length = 1000;
  for (std::uint64_t i = 0; i < 10; ++i) {
    // Every third piece is reached the slow way.
    config.pieces.push_back({.start = i * 100,
                             .length = 100,
                             .host = i % 3 == 2 ? nullptr : memory.data(),
                             .remote_address = 90'000 + i * 1000});
  }
  const Region region(std::move(config));
  EXPECT_EQ(region.remote_pieces(), 3U);
  std::uint64_t at = 520;
  for (std::uint64_t i = 0; i < 10; ++i) {
    Span span;
    ASSERT_EQ(region.translate(at, 1500 - at, true, &span), Access::kGranted);
    const std::uint64_t inside = i == 0 ? 20 : 0;
    EXPECT_EQ(span.length, 100 - inside);
    EXPECT_EQ(span.remote_address, 90'000 + i * 1000 + inside);
    EXPECT_EQ(span.host, i % 3 == 2 ? nullptr : memory.data() + inside);
    at += span.length;
  }
  EXPECT_EQ(at, 1500U);
}

TEST(Region, GivesBackWhatItHolds) {
  auto held = std::make_shared<int>(1);
  std::weak_ptr<int> watched = held;
  std::byte byte{};
  Region::Config config;
  config.length = 1;
  config.pieces = {{.start = 0, .length = 1, .host = &byte, .remote_address = 0}};
  config.holds.push_back(std::move(held));
  auto region = std::make_unique<Region>(std::move(config));
  EXPECT_FALSE(watched.expired());
  region.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace uroce::test
