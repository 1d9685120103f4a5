// How the shim intercepts the program's calls, alongside other libraries that hook libc, and where
// that is refused. Each in a process of its own.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/unit/shim_memory/filled_memory.h"
#include "tests/unit/shim_memory/foreign_jump.h"
#include "tests/unit/shim_memory/fresh_process.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/hooks/libc_patch.h"

namespace uroce::test {
namespace {

std::uint8_t* libcs(const char* name) {
  return static_cast<std::uint8_t*>(::dlsym(::dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name));
}

// Another library's hook, installed over libc's function as UCX and Open MPI do.
template <typename Code>
void overwrite(std::uint8_t* entry, const Code& code) {
  std::uint8_t* const page = entry - reinterpret_cast<std::uintptr_t>(entry) %
                                         kPage;  // the bytes may cross into the next page
  ASSERT_EQ(::mprotect(page, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
  std::memcpy(entry, code.data(), sizeof(code));
  __builtin___clear_cache(reinterpret_cast<char*>(entry),
                          reinterpret_cast<char*>(entry) + sizeof(code));
  ASSERT_EQ(::mprotect(page, 2 * kPage, PROT_READ | PROT_EXEC), 0);
}

unsigned foreign_madvises = 0;
int foreign_madvise(void* address, std::size_t length, int advice) {
  ++foreign_madvises;
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}

unsigned foreign_munmaps = 0;
int foreign_munmap(void* address, std::size_t length) {
  ++foreign_munmaps;
  return static_cast<int>(::syscall(SYS_munmap, address, length));
}

// Calls libc's own function, even if the test's is interposed.
int madvise_of_libc(void* address, std::size_t length, int advice) {
  return reinterpret_cast<int (*)(void*, std::size_t, int)>(libcs("madvise"))(address, length,
                                                                              advice);
}
int munmap_of_libc(void* address, std::size_t length) {
  return reinterpret_cast<int (*)(void*, std::size_t)>(libcs("munmap"))(address, length);
}

void expect_drops_are_seen(StandIn& daemon) {
  std::uint64_t* const memory = map_filled(4 * kPage);
  const Registered shared = daemon.share(memory, 4 * kPage);
  ASSERT_EQ(shared.error, 0U);
  ASSERT_EQ(shared.remote_pieces, 0U);
  ASSERT_EQ(madvise_of_libc(memory, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(memory[0], 0U);
  EXPECT_EQ(memory[kWords], ~std::uint64_t{0});
  EXPECT_EQ(munmap_of_libc(memory, 4 * kPage), 0);
}

TEST(Watching, HooksBeforeAnEarlierHook) {
  if (!is_fresh_process()) {
    return;
  }
  overwrite(libcs("madvise"), foreign_jump(reinterpret_cast<const void*>(foreign_madvise)));
  overwrite(libcs("munmap"), other_foreign_jump(reinterpret_cast<const void*>(foreign_munmap)));
  StandIn daemon;
  expect_drops_are_seen(daemon);
  EXPECT_GE(foreign_munmaps, 1U);
  std::uint64_t* const memory = map_filled(kPage);
  const unsigned before = foreign_madvises;
  EXPECT_EQ(madvise_of_libc(memory, kPage, MADV_DONTNEED), 0);
  EXPECT_EQ(foreign_madvises, before + 1);
  EXPECT_EQ(memory[0], 0U);
}

TEST(Watching, SurvivesALaterHook) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  expect_drops_are_seen(daemon);
  overwrite(libcs("madvise"), foreign_jump(reinterpret_cast<const void*>(foreign_madvise)));
  expect_drops_are_seen(daemon);
  overwrite(libcs("munmap"), foreign_jump(reinterpret_cast<const void*>(foreign_munmap)));
  expect_drops_are_seen(daemon);
  EXPECT_GE(foreign_munmaps, 1U);
  // Some calls aren't seen now, so nothing can be paged on demand.
  const DoneOrRefusal watched = shim::patch_libc();
  ASSERT_FALSE(watched);
  EXPECT_NE(watched.error().message.view().find("munmap"), std::string::npos)
      << watched.error().message.view();
}

TEST(Watching, HooksAgainWhenLibcIsRestored) {
  if (!is_fresh_process()) {
    return;
  }
  decltype(foreign_jump(nullptr)) original{};
  std::memcpy(original.data(), libcs("madvise"), sizeof(original));
  overwrite(libcs("madvise"), foreign_jump(reinterpret_cast<const void*>(foreign_madvise)));
  StandIn daemon;
  expect_drops_are_seen(daemon);
  overwrite(libcs("madvise"), original);
  const unsigned before = foreign_madvises;
  expect_drops_are_seen(daemon);
  EXPECT_EQ(foreign_madvises, before);
}

// A kind of hook that the shim can't precede.
TEST(Watching, MemoryIsLeftAloneWhereDropsCannotBeSeen) {
  if (!is_fresh_process()) {
    return;
  }
  overwrite(libcs("madvise"), kUnknownStart);
  std::uint64_t* const memory = map_filled(4 * kPage);
  const auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), 4 * kPage, kAccessLocalWrite);
  ASSERT_TRUE(description);
  EXPECT_NE(description->unconverted_reason.view().find("madvise"), std::string::npos)
      << description->unconverted_reason.view();
  shim::release_memory(description->held);
  StandIn daemon;
  const Registered shared = daemon.share(memory, 4 * kPage);
  EXPECT_EQ(shared.error, 0U);
  EXPECT_EQ(shared.remote_pieces, 1U);
  memory[5] = 6;
  EXPECT_EQ(daemon.load(memory + 5), 6U);
}

TEST(Watching, MemoryIsLeftAloneWhereTheSystemForbidsPatches) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr int kSetMdwe = 65;  // PR_SET_MDWE of Linux 6.3, which Debian 12's headers don't have
  constexpr unsigned long kRefuseExecGain = 1;
  if (::prctl(kSetMdwe, kRefuseExecGain, 0UL, 0UL, 0UL) != 0) {
    GTEST_SKIP() << "the kernel doesn't know PR_SET_MDWE";
  }
  StandIn daemon;
  std::uint64_t* const memory = map_filled(4 * kPage);
  const Registered shared = daemon.share(memory, 4 * kPage);
  EXPECT_EQ(shared.error, 0U);
  EXPECT_EQ(shared.remote_pieces, 1U);
  EXPECT_TRUE(daemon.store(memory, 7));
  EXPECT_EQ(memory[0], 7U);
}

// Before a jump is written where other threads may execute.
TEST(Watching, CoresAreSynchronized) {
  if (!is_fresh_process()) {
    return;
  }
  constexpr int kGetRegistrations = 1 << 9;  // of Linux 6.3, which Debian 12's headers don't have
  constexpr int kSyncCore = 1 << 6;          // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
  const auto registrations = [] { return ::syscall(SYS_membarrier, kGetRegistrations, 0U, 0); };
  if (registrations() < 0) {
    GTEST_SKIP() << "the kernel doesn't report registrations for membarrier";
  }
  EXPECT_EQ(registrations() & kSyncCore, 0);
  StandIn daemon;
  expect_drops_are_seen(daemon);
  EXPECT_EQ(registrations() & kSyncCore, kSyncCore);
}

// Like an old kernel, or a container's filter.
void forbid_membarrier() {
  std::array<sock_filter, 4> code{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog program{.len = code.size(), .filter = code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST(Watching, AProcessOfOneThreadNeedsNoBarrier) {
  if (!is_fresh_process()) {
    return;
  }
  StandIn daemon;
  forbid_membarrier();
  expect_drops_are_seen(daemon);
}

TEST(Watching, MemoryIsLeftAloneWhereCoresCannotBeSynchronized) {
  if (!is_fresh_process()) {
    return;
  }
  forbid_membarrier();
  std::atomic<bool> stop{false};
  std::thread other([&] { stop.wait(false); });
  std::uint64_t* const memory = map_filled(4 * kPage);
  const auto description =
      shim::describe_memory(reinterpret_cast<std::uintptr_t>(memory), 4 * kPage, kAccessLocalWrite);
  ASSERT_TRUE(description);
  EXPECT_NE(description->unconverted_reason.view().find("membarrier"), std::string::npos)
      << description->unconverted_reason.view();
  EXPECT_EQ(description->pieces.front().kind, abi::PieceKind::kProcMem);
  shim::release_memory(description->held);
  stop = true;
  stop.notify_all();
  other.join();
}

}  // namespace
}  // namespace uroce::test
