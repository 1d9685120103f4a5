// The places of registered memory in the arena: their number is limited, because each is a mapping
// of the process.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>
#include <thread>
#include <utility>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/hooks/memory_calls.h"
#include "verbs_shim/memory/sharing/kernel_calls.h"
#include "verbs_shim/memory/sharing/sharing_state.h"

namespace uroce::test {
namespace {

constexpr std::size_t kSlots = 8;

shim::MemoryDescription describe(const std::uint64_t* memory) {
  auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), kPage, kAccessLocalWrite);
  EXPECT_TRUE(description);
  EXPECT_EQ(description->pieces.size(), 1U);
  return std::move(*description);
}

// Registers the page and deregisters it. Whether it is converted.
bool converts(const std::uint64_t* memory) {
  const shim::MemoryDescription description = describe(memory);
  shim::release_memory(description.held);
  return description.pieces.front().kind == abi::PieceKind::kArena;
}

TEST(Slots, AreLimitedToAPartOfTheMappings) {
  if (!is_fresh_process()) {
    return;
  }
  shim::ArenaFile::set_slots_max(kSlots);
  StandIn daemon;
  // Every other page, so that the pieces aren't adjacent.
  std::uint64_t* const memory = map_filled(4 * kSlots * kPage);
  for (std::size_t i = 0; i < kSlots; ++i) {
    EXPECT_TRUE(converts(memory + 2 * i * kWords)) << i;
  }
  std::uint64_t* const late = memory + 2 * kSlots * kWords;
  const shim::MemoryDescription description = describe(late);
  EXPECT_EQ(description.pieces.front().kind, abi::PieceKind::kProcMem);
  EXPECT_NE(description.unconverted_reason.view().find("vm.max_map_count"), std::string::npos)
      << description.unconverted_reason.view();
  shim::release_memory(description.held);
  EXPECT_EQ(daemon.share(late, kPage).remote_pieces, 1U);
  EXPECT_EQ(daemon.load(late), ~std::uint64_t{0});
  EXPECT_TRUE(converts(memory)) << "what is converted already needs no slot";
}

TEST(Slots, OfUnmappedMemoryDontCount) {
  if (!is_fresh_process()) {
    return;
  }
  shim::ArenaFile::set_slots_max(kSlots);
  StandIn daemon;
  for (std::size_t i = 0; i < 4 * kSlots; ++i) {
    std::uint64_t* const memory = map_filled(kPage);
    EXPECT_TRUE(converts(memory)) << i;
    ASSERT_EQ(::munmap(memory, kPage), 0);
  }
}

// Otherwise the places would be used up after some million registrations.
TEST(Slots, OfUnmappedMemoryAreUsedAgain) {
  if (!is_fresh_process()) {
    return;
  }
  shim::ArenaFile::set_slots_max(kSlots);
  for (std::size_t i = 0; i < 4 * kSlots; ++i) {
    std::uint64_t* const memory = map_filled(2 * kPage);
    ASSERT_EQ(::madvise(memory, kPage, MADV_DONTNEED), 0);
    const shim::MemoryDescription description = describe(memory);
    ASSERT_EQ(description.pieces.front().kind, abi::PieceKind::kArena);
    EXPECT_LT(description.pieces.front().offset, kSlots * shim::ArenaFile::kSlot) << i;
    EXPECT_EQ(memory[0], 0U) << "a slot is empty when it is used again";
    memory[0] = i + 1;
    shim::release_memory(description.held);
    // As if the shim hadn't seen it, so that the page is still in the slot.
    ASSERT_EQ(shim::kernel::munmap(memory, 2 * kPage), 0);
  }
}

std::uint64_t* registered_meanwhile = nullptr;  // by another thread, while one unmaps

int munmap_and_let_register(void* address, std::size_t length) {
  const int result = shim::kernel::munmap(address, length);
  if (std::uint64_t* const memory = std::exchange(registered_meanwhile, nullptr)) {
    std::thread([memory] {
      const shim::MemoryDescription description = describe(memory);
      EXPECT_EQ(description.pieces.front().kind, abi::PieceKind::kProcMem) << "it got a place";
      shim::release_memory(description.held);
    }).join();
  }
  return result;
}

// A thread that has unmapped memory is about to empty its place, which another's registration must
// not have got meanwhile.
TEST(Slots, AreUsedAgainOnlyWhenTheyWereEmptied) {
  if (!is_fresh_process()) {
    return;
  }
  shim::ArenaFile::set_slots_max(1);  // so each registration looks for unused ones
  StandIn daemon;
  // Any memory's place in the slot would lie within.
  constexpr std::size_t kHugePage = 2U << 20U;
  std::uint64_t* const released = map_filled(2 * kHugePage);
  const auto description = shim::describe_memory(reinterpret_cast<std::uintptr_t>(released),
                                                 2 * kHugePage, kAccessLocalWrite);
  ASSERT_TRUE(description);
  ASSERT_EQ(description->pieces.front().kind, abi::PieceKind::kArena);
  shim::release_memory(description->held);
  std::uint64_t* const memory = map_filled(kPage);
  const std::uint64_t before = memory[0];
  registered_meanwhile = memory;
  const auto restored = std::exchange(shim::calls::next.munmap, munmap_and_let_register);
  EXPECT_EQ(::munmap(released, 2 * kHugePage), 0);
  shim::calls::next.munmap = restored;
  EXPECT_EQ(registered_meanwhile, nullptr) << "munmap wasn't called";
  EXPECT_EQ(memory[0], before);
}

}  // namespace
}  // namespace uroce::test
