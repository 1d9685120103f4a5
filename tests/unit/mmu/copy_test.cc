#include "mmu/copies/copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "mmu/copies/ordered_copy.h"
#include "mmu/copies/small_copy.h"
#include "mmu/proc_mem/proc_mem.h"
#include "tests/unit/mmu/half_file.h"
#include "tests/unit/mmu/local_region.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

class Copy : public ::testing::Test {
 protected:
  Copy() { install_copy_guard(); }
  Span span(std::uint64_t offset, std::size_t length) const {
    Span result;
    EXPECT_EQ(region_->translate(0x1000 + offset, length, true, &result), Access::kGranted);
    return result;
  }

  HalfFile file_;
  std::unique_ptr<Region> region_ = local_region(file_.memory(), 2 * kPage);
  std::array<std::byte, 2 * kPage> buffer_{};
};

TEST_F(Copy, CopiesBothWays) {
  buffer_.fill(std::byte{5});
  ASSERT_TRUE(copy_to(*region_, span(100, 1000), buffer_.data()));
  EXPECT_EQ(file_.memory()[100], std::byte{5});
  EXPECT_EQ(file_.memory()[99], std::byte{0});
  file_.memory()[101] = std::byte{6};
  ASSERT_TRUE(copy_from(*region_, span(100, 1000), buffer_.data()));
  EXPECT_EQ(buffer_[1], std::byte{6});
}

TEST_F(Copy, MissingPagesFailTheCopyAndNothingElse) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(copy_from(*region_, span(kPage - 8, 16), buffer_.data()));
    EXPECT_FALSE(copy_to(*region_, span(kPage, 8), buffer_.data()));
    EXPECT_TRUE(copy_to(*region_, span(0, 8), buffer_.data()));
  }
}

// Every length, up to the end of the existing page, and one byte into the missing one.
TEST_F(Copy, SmallCopiesFailWherePagesAreMissing) {
  install_copy_guard();
  std::byte* const end = file_.memory() + kPage;
  for (std::size_t length = 1; length <= kSmallCopyMax; ++length) {
    for (std::size_t i = 0; i < length; ++i) {
      buffer_[i] = static_cast<std::byte>(length + i);
    }
    ASSERT_TRUE(copy_small(end - length, buffer_.data(), length)) << length;
    EXPECT_TRUE(std::equal(end - length, end, buffer_.begin())) << length;
    EXPECT_FALSE(copy_small(end - length + 1, buffer_.data(), length)) << length;
    EXPECT_FALSE(copy_small(buffer_.data(), end - length + 1, length)) << length;
  }
}

TEST_F(Copy, SmallCopiesMayOverlap) {
  for (std::size_t length = 1; length <= kSmallCopyMax; ++length) {
    for (std::size_t i = 0; i < 2 * kSmallCopyMax; ++i) {
      buffer_[i] = static_cast<std::byte>(i);
    }
    ASSERT_TRUE(copy_small(buffer_.data() + 3, buffer_.data(), length));
    for (std::size_t i = 0; i < length; ++i) {
      EXPECT_EQ(buffer_[i + 3], static_cast<std::byte>(i)) << length;
    }
    EXPECT_EQ(buffer_[length + 3], static_cast<std::byte>(length + 3)) << length;
  }
}

// Each length at hand, and some that take the way of larger ones; also where the pages end.
TEST_F(Copy, CopiesInOrderAreCopies) {
  for (const std::size_t length :
       std::to_array<std::size_t>({1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 1'000, 4'000})) {
    std::byte* const end = file_.memory() + kPage;
    const auto copy = length <= kSmallCopyMax ? copy_small_in_order : copy_mapped_in_order;
    for (std::size_t i = 0; i < length; ++i) {
      buffer_[i] = static_cast<std::byte>(length + i);
    }
    ASSERT_TRUE(copy(end - length, buffer_.data(), length)) << length;
    EXPECT_TRUE(std::equal(end - length, end, buffer_.begin())) << length;
    EXPECT_FALSE(copy(end - length + 1, buffer_.data(), length)) << length;
    EXPECT_FALSE(copy(buffer_.data(), end - length + 1, length)) << length;
    for (std::size_t i = 0; i < 2 * length; ++i) {
      buffer_[i] = static_cast<std::byte>(i);
    }
    ASSERT_TRUE(copy(buffer_.data() + 3, buffer_.data(), length));
    for (std::size_t i = 0; i < length; ++i) {
      ASSERT_EQ(buffer_[i + 3], static_cast<std::byte>(i)) << length;
    }
  }
}

TEST_F(Copy, MissingPagesFailAtomics) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's atomics hold a lock of its own, which the jump would keep";
#endif
  for (int i = 0; i < 100; ++i) {
    std::uint64_t original = 0;
    EXPECT_FALSE(fetch_and_add(*region_, span(kPage, 8), 1, &original));
    EXPECT_FALSE(compare_and_swap(*region_, span(kPage, 8), 0, 1, &original));
  }
}

TEST_F(Copy, EveryThreadHasItsOwnGuard) {
  std::thread other([&] {
    std::array<std::byte, 16> mine;
    for (int i = 0; i < 1000; ++i) {
      EXPECT_FALSE(copy_from(*region_, span(kPage, 16), mine.data()));
    }
  });
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(copy_from(*region_, span(0, 16), buffer_.data()));
  }
  other.join();
}

TEST_F(Copy, GuardsNest) {
  bool inner = true;
  const bool outer = guarded([&] {
    inner = guarded([&] { file_.memory()[kPage] = std::byte{1}; });
    file_.memory()[0] = std::byte{1};
  });
  EXPECT_FALSE(inner);
  EXPECT_TRUE(outer);
}

TEST_F(Copy, AtomicsAnswerWithTheValueBefore) {
  auto* const word = reinterpret_cast<std::uint64_t*>(file_.memory());
  *word = 10;
  std::uint64_t original = 0;
  ASSERT_TRUE(fetch_and_add(*region_, span(0, 8), 5, &original));
  EXPECT_EQ(original, 10U);
  ASSERT_TRUE(compare_and_swap(*region_, span(0, 8), 14, 99, &original));
  EXPECT_EQ(original, 15U);
  EXPECT_EQ(*word, 15U);
  ASSERT_TRUE(compare_and_swap(*region_, span(0, 8), 15, 99, &original));
  EXPECT_EQ(original, 15U);
  EXPECT_EQ(*word, 99U);
}

TEST_F(Copy, TheSlowWayDoesTheSame) {
  auto memory = open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid()));
  if (!memory) {
    GTEST_SKIP() << memory.error().message;
  }
  auto* const word = reinterpret_cast<std::uint64_t*>(file_.memory());
  Region::Config config;
  config.length = 8;
  config.remote = memory->get();
  config.pieces = {{.start = 0,
                    .length = 8,
                    .host = nullptr,
                    .remote_address = reinterpret_cast<std::uintptr_t>(word)}};
  const Region region(std::move(config));
  Span remote;
  ASSERT_EQ(region.translate(0, 8, true, &remote), Access::kGranted);
  std::uint64_t value = 10;
  ASSERT_TRUE(copy_to(region, remote, reinterpret_cast<std::byte*>(&value)));
  EXPECT_EQ(*word, 10U);
  ASSERT_TRUE(fetch_and_add(region, remote, 5, &value));
  EXPECT_EQ(value, 10U);
  ASSERT_TRUE(compare_and_swap(region, remote, 15, 99, &value));
  EXPECT_EQ(value, 15U);
  ASSERT_TRUE(copy_from(region, remote, reinterpret_cast<std::byte*>(&value)));
  EXPECT_EQ(value, 99U);
  remote.remote_address += kPage;  // beyond the end of the file
  EXPECT_FALSE(copy_from(region, remote, reinterpret_cast<std::byte*>(&value)));
  remote.remote_address = 16;
  EXPECT_FALSE(copy_to(region, remote, reinterpret_cast<std::byte*>(&value)));
}

// Two programs have mapped one counter, each at a different address.
TEST_F(Copy, SlowWayAtomicsAreAtomicAcrossMappings) {
  constexpr std::uint64_t kRounds = 5'000;
  auto memory = open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid()));
  if (!memory) {
    GTEST_SKIP() << memory.error().message;
  }
  const auto count = [&](const std::byte* word) {
    const Span span{.host = nullptr,
                    .remote_address = reinterpret_cast<std::uintptr_t>(word),
                    .length = sizeof(std::uint64_t)};
    Region::Config config;
    config.length = span.length;
    config.remote = memory->get();
    config.pieces = {{.start = 0,
                      .length = span.length,
                      .host = nullptr,
                      .remote_address = span.remote_address}};
    const Region region(std::move(config));
    std::uint64_t original = 0;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(fetch_and_add(region, span, 1, &original));
    }
  };
  const std::byte* elsewhere = file_.map_again();
  std::thread other([&] { count(elsewhere + 64); });
  count(file_.memory() + 64);
  other.join();
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(file_.memory() + 64), 2 * kRounds);
}

// In a child process, because they end it. (A sanitizer, whose handler was installed first, reports
// them earlier.)
TEST_F(Copy, FaultsOutsideOfCopiesEndTheProcess) {
  EXPECT_DEATH(
      {
        install_copy_guard();
        *const_cast<volatile std::byte*>(file_.memory() + kPage) = std::byte{1};
      },
      "");
  EXPECT_DEATH(
      {
        install_copy_guard();
        (void)guarded([] { ::raise(SIGBUS); });
      },
      "");
}

}  // namespace
}  // namespace uroce::test
