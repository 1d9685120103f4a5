// A page that the kernel can't read out during its conversion keeps its content, and so does what
// follows it; the slices before it are converted.

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"

namespace uroce::test {
namespace {

// pread() at this offset fails with EIO, as it does of /proc/self/mem if the page can't be read.
void forbid_reading_at(std::uint64_t offset) {
  constexpr std::size_t kLow = offsetof(seccomp_data, args) + 3 * sizeof(std::uint64_t);
  const auto low = static_cast<std::uint32_t>(offset);
  const auto high = static_cast<std::uint32_t>(offset >> 32U);
  std::array<sock_filter, 8> code{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 5),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kLow),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 3),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kLow + sizeof(std::uint32_t)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = code.size(), .filter = code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(UnreadablePage, KeepsItsContent) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  std::uint64_t* const memory = map_filled(4 * kPage);
  forbid_reading_at(reinterpret_cast<std::uintptr_t>(memory));
  const Registered registered = daemon.share(memory, 4 * kPage);
  EXPECT_EQ(registered.error, 0U);
  EXPECT_EQ(registered.remote_pieces, 1U) << "it stays where it is";
  EXPECT_EQ(std::count(memory, memory + 4 * kWords, ~std::uint64_t{0}), 4 * kWords);
}

// Two slices or more come before the page.
TEST(UnreadablePage, FollowsConvertedSlices) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr std::size_t kHuge = 2 << 20;
  constexpr std::size_t kBefore = 64 << 20;
  constexpr std::size_t kBytes = kBefore + kHuge;
  StandIn daemon;
  std::uint64_t* const room = map_filled(kBytes + kHuge);
  std::uint64_t* const memory =
      room + (kHuge - reinterpret_cast<std::uintptr_t>(room) % kHuge) / sizeof(*room);
  std::uint64_t* const after = memory + kBefore / sizeof(*memory);
  forbid_reading_at(reinterpret_cast<std::uintptr_t>(after));
  const Registered registered = daemon.share(memory, kBytes);
  EXPECT_EQ(registered.error, 0U);
  EXPECT_EQ(registered.pieces, 2U);
  EXPECT_EQ(registered.remote_pieces, 1U);
  EXPECT_EQ(std::count(memory, memory + kBytes / sizeof(*memory), ~std::uint64_t{0}),
            static_cast<std::ptrdiff_t>(kBytes / sizeof(*memory)));
  for (std::uint64_t* const word : {after - 1, after}) {
    *word = 5;
    EXPECT_EQ(daemon.load(word), 5U);
    EXPECT_TRUE(daemon.store(word, 6));
    EXPECT_EQ(*word, 6U);
  }
  struct stat arena = {};
  ASSERT_EQ(::fstat(shim::arena(0).descriptor, &arena), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(arena.st_blocks) * 512, kBefore)
      << "nothing is left of what was copied in vain";
}

}  // namespace
}  // namespace uroce::test
