// What a mirror is charged to its user, and that a mirror which the user or the machine has no room
// for isn't usable.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/mmu/paged_program.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

// A regression: a program that uses up all mappings must not trigger an assertion in the daemon.
TEST(MirrorAccount, WithoutAddressSpaceIsNotUsable) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need addresses themselves";
#else
  Quiescence quiescence;
  const auto account = make_private_account();
  unsigned long long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit full{.rlim_cur = pages * kPage + Mirror::kTableBytes / 2,
                    .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &full), 0);
  const auto mirror = std::make_unique<Mirror>(quiescence, UniqueFd(), 0, account);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_FALSE(mirror->usable());
#endif
}

TEST(MirrorAccount, BeyondItsUsersLimitIsNotUsable) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kMappings, 0}}, .of_user = {}});
  Quiescence quiescence;
  const Mirror mirror(quiescence, UniqueFd(), 0, shares.of({.uid = ::geteuid() + 1}));
  EXPECT_FALSE(mirror.usable());
}

// A user's mappings are limited, however many parts the memory of the user's programs has.
TEST(MirrorAccount, MemoryInMorePartsThanTheUserMayHaveIsReachedTheSlowWay) {
  Shares shares;
  shares.set_limits({.of_everybody = {{Limit::kMappings, 200}}, .of_user = {}});
  const auto account = shares.of({.uid = ::geteuid() + 1});
  {
    Quiescence quiescence;
    const PagedProgram program(quiescence);
    Mirror mirror(quiescence, UniqueFd(), 0, account);
    std::vector<MirrorPiece> pieces;
    for (std::size_t page = 0; page < Mirror::kPagesInChunk; page += 2) {
      pieces.push_back(program.everything());
      pieces.back().address = PagedProgram::kBase + page * kPage;
      pieces.back().length = kPage;
    }
    mirror.describe(PagedProgram::kBase, PagedProgram::kBase + Mirror::kChunk, pieces,
                    mirror.changes());
    EXPECT_GT(account->used(Limit::kMappings), 100U);
    EXPECT_LE(account->used(Limit::kMappings), 200U);
    mirror.invalidate(1, PagedProgram::kBase, PagedProgram::kBase + Mirror::kChunk, true);
    EXPECT_LE(account->used(Limit::kMappings), 128U) << "the mappings are released";
  }
  EXPECT_EQ(account->used(Limit::kMappings), 0U);
  EXPECT_EQ(account->used(Limit::kAddressSpace), 0U);
}

// The daemon's mappings of a memfd.
std::size_t mappings_of(const std::string& name) {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find(name) != std::string::npos ? 1 : 0;
  }
  return count;
}

// Otherwise a program that answers at the right moment has as many mappings as it likes.
TEST(MirrorAccount, AChunkDescribedWhileItIsInvalidatedLosesItsOldMappings) {
  Quiescence quiescence;
  const PagedProgram program(quiescence);
  Mirror& mirror = *program.mirror;
  const std::size_t before = mappings_of("paged-program");
  std::vector<MirrorPiece> pieces;
  const auto add = [&](std::size_t page) {
    pieces.push_back(program.everything());
    pieces.back().address = kBase + page * kPage;
    pieces.back().length = kPage;
  };
  constexpr std::size_t kLast = Mirror::kPagesInChunk - 1;
  for (std::size_t page = 0; page < kLast; page += 2) {
    add(page);
  }
  mirror.describe(kBase, kBase + Mirror::kChunk, pieces, mirror.changes());
  ASSERT_GT(mappings_of("paged-program"), before + 200);
  quiescence.online(0);  // a worker may be using them, so the invalidation waits
  std::thread invalidates([&] { mirror.invalidate(1, kBase, kBase + kLast * kPage, true); });
  while (mirror.chunk_count() != 0) {
    std::this_thread::yield();
  }
  pieces.clear();
  add(kLast);
  mirror.describe(kBase, kBase + Mirror::kChunk, pieces, mirror.changes());
  EXPECT_EQ(mirror.chunk_count(), 1U);
  quiescence.offline(0);
  invalidates.join();
  EXPECT_EQ(mappings_of("paged-program"), before + 1);
  EXPECT_EQ(mirror.find_run(kBase + kLast * kPage, kBase + Mirror::kChunk, true).state,
            Mirror::State::kAbsent);
}

}  // namespace
}  // namespace uroce::test
