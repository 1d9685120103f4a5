#include "base/memory/memory_reserve.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/sanitized.h"
#include "tests/unit/address_space.h"

namespace uroce {
namespace {

constexpr std::size_t kBlock = std::size_t{256} << 10U;  // a mapping of its own
constexpr std::size_t kReserve = std::size_t{8} << 20U;

// In a process of its own, which may not map more memory than it already has. 0: success.
int use_up_the_reserve() {
  if (!hold_memory_reserve()) {
    return 1;
  }
  const rlimit limit{.rlim_cur = address_space(), .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &limit);
  std::vector<std::unique_ptr<char[]>> blocks;
  blocks.reserve(1'000);
  for (;;) {
    std::unique_ptr<char[]> block(new (std::nothrow) char[kBlock]);
    if (block == nullptr) {
      break;
    }
    blocks.push_back(std::move(block));
  }
  if (blocks.size() * kBlock < kReserve / 2) {
    return 2;  // the reserve gave nothing
  }
  if (std::get_new_handler() == nullptr) {
    return 5;  // another thread may have made the reserve whole meanwhile
  }
  if (hold_memory_reserve()) {
    return 3;  // there is no memory to refill it from
  }
  blocks.clear();
  return hold_memory_reserve() ? 0 : 4;
}

// How often a thread that finds no memory is told to try again.
int tries() {
  int count = 0;
  try {
    for (;;) {
      std::get_new_handler()();
      ++count;
    }
  } catch (const std::bad_alloc&) {
    return count;
  }
}

// A thread may find no memory, and come for the last piece when another one has just taken it.
int take_the_last_piece_before_another_thread() {
  const bool held = hold_memory_reserve();
  std::thread(tries).join();
  const int first = tries();
  return held && first == 1 && tries() == 0 ? 0 : 1;
}

TEST(MemoryReserve, WhatAnotherThreadHasGivenUpIsTried) {
  EXPECT_EXIT(std::_Exit(take_the_last_piece_before_another_thread()), testing::ExitedWithCode(0),
              "");
}

TEST(MemoryReserve, IsGivenUpPieceByPieceAndTakenAgain) {
  if (kSanitized) {
    GTEST_SKIP() << "sanitizers need more address space than a limit leaves";
  }
  EXPECT_EXIT(std::_Exit(use_up_the_reserve()), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace uroce
