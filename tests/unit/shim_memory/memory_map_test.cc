#include "verbs_shim/memory/sharing/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

namespace uroce::test {
namespace {

using shim::AreaRange;
using shim::MappedArea;
using shim::MemoryMap;

constexpr std::uint64_t kPage = 4096;

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

class MemoryMapTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    memory_ =
        ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::mprotect(at(1), kPage, PROT_READ);
    ::munmap(at(2), kPage);
  }
  void TearDown() override { ::munmap(memory_, 4 * kPage); }
  void* at(std::uint64_t page) const { return static_cast<std::byte*>(memory_) + page * kPage; }

  // nullptr: nothing is mapped there.
  const MappedArea* look(std::uint64_t address) {
    return map_.at_or_above(address, &area_) ? &area_ : nullptr;
  }

  void* memory_ = nullptr;
  MemoryMap map_{GetParam()};
  MappedArea area_;
};

TEST_P(MemoryMapTest, FindsTheAreaThatCovers) {
  const MappedArea* const area = look(number_of(at(1)) + 5);
  ASSERT_NE(area, nullptr);
  EXPECT_EQ(area->start, number_of(at(1)));
  EXPECT_EQ(area->end, number_of(at(2)));
  EXPECT_EQ(area->protection, PROT_READ);
  EXPECT_FALSE(area->shared);
  EXPECT_EQ(area->inode, 0U);
  EXPECT_EQ(area->page_size, kPage);
}

TEST_P(MemoryMapTest, FindsTheNextAboveAHole) {
  const MappedArea* const area = look(number_of(at(2)));
  ASSERT_NE(area, nullptr);
  EXPECT_EQ(area->start, number_of(at(3)));
}

TEST_P(MemoryMapTest, NothingIsAboveEverything) { EXPECT_EQ(look(~0ULL - kPage), nullptr); }

TEST_P(MemoryMapTest, SeesChanges) {
  ASSERT_NE(look(number_of(at(0))), nullptr);
  ::mprotect(at(0), kPage, PROT_READ);
  EXPECT_EQ(look(number_of(at(0)))->protection, PROT_READ);
}

TEST_P(MemoryMapTest, KnowsTheStackByName) {
  // The main thread's, which runs the tests.
  const MappedArea* const area = look(number_of(__builtin_frame_address(0)));
  ASSERT_NE(area, nullptr);
  EXPECT_EQ(area->name(), "[stack]");
}

INSTANTIATE_TEST_SUITE_P(BothWays, MemoryMapTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Query" : "Parse"; });

// A process without free descriptors can't read its mappings, which is an error, not an empty list.
TEST(ForEachArea, FailsWithoutDescriptors) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool all = shim::for_each_area([](const AreaRange&) {});
  shim::MemoryMap map;
  shim::MappedArea area;
  const bool found = map.at_or_above(0, &area);
  const bool failed = map.failed();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(all);
  EXPECT_FALSE(found);
  EXPECT_TRUE(failed);
}

const void* wanted;
int visits;

TEST(ForEachArea, VisitsEachOnce) {
  wanted = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  visits = 0;
  EXPECT_TRUE(shim::for_each_area([](const AreaRange& area) {
    if (area.start == number_of(wanted)) {
      ++visits;
      EXPECT_EQ(area.end - area.start, kPage);
      EXPECT_EQ(area.protection, PROT_READ);
      EXPECT_TRUE(area.shared);
    }
  }));
  EXPECT_EQ(visits, 1);
  ::munmap(const_cast<void*>(wanted), kPage);
}

}  // namespace
}  // namespace uroce::test
