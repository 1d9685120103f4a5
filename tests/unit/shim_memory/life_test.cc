// What programs do with shared memory: register it again, enlarge it, free it, fork.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/unit/shim_memory/asan.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/sharing/isolated_thread.h"
#include "verbs_shim/memory/sharing/memory_map.h"
#include "verbs_shim/memory/sharing/page_conversion.h"
#include "verbs_shim/memory/sharing/user_fault.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kWriting = kAccessLocalWrite | kAccessRemoteWrite;

std::uint64_t* map(std::size_t length, int protection = PROT_READ | PROT_WRITE) {
  void* const memory = ::mmap(nullptr, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<std::uint64_t*>(memory);
}

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Runs the work in a forked child: 0, or the number of the check that failed.
template <typename Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Life, OverlappingRegistrationsAreOneMemory) {
  StandIn daemon;
  std::uint64_t* const memory = map(8 * kPage);
  memory[0] = 1;
  ASSERT_EQ(daemon.share(memory, 3 * kPage).error, 0U);
  ASSERT_EQ(daemon.share(memory + 1024, 4 * kPage).error, 0U);
  memory[1024] = 42;
  EXPECT_EQ(daemon.load(memory + 1024), 42U);
  const Registered all = daemon.share(memory, 8 * kPage);
  EXPECT_EQ(all.error, 0U);
  EXPECT_EQ(all.remote_pieces, 0U);
  EXPECT_EQ(all.pieces, 3U);
  EXPECT_EQ(daemon.load(memory + 1024), 42U);
  EXPECT_EQ(daemon.load(memory), 1U);
  EXPECT_TRUE(daemon.store(memory + 8 * 512 - 1, 7));
  EXPECT_EQ(memory[8 * 512 - 1], 7U);
  ::munmap(memory, 8 * kPage);
}

TEST(Life, SecondDescriptionIsQuick) {
  constexpr std::size_t kBytes = 16 << 20;
  std::uint64_t* const memory = map(kBytes);
  std::memset(memory, 1, kBytes);
  const auto first = shim::describe_memory(number_of(memory), kBytes, kWriting);
  ASSERT_TRUE(first);
  const auto second = shim::describe_memory(number_of(memory), kBytes, kWriting);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->pieces.size(), 1U);
  EXPECT_EQ(second->pieces[0].kind, abi::PieceKind::kArena);
  EXPECT_EQ(second->pieces[0].length, kBytes);
  shim::release_memory(first->held);
  shim::release_memory(second->held);
  ::munmap(memory, kBytes);
}

TEST(Life, MremapEnlargesConvertedMemory) {
  StandIn daemon;
  std::uint64_t* memory = map(4 * kPage);
  std::uint64_t* const behind = map(4 * kPage);
  memory[0] = 5;
  behind[0] = 6;
  ASSERT_EQ(daemon.share(memory, 4 * kPage).error, 0U);
  ASSERT_EQ(daemon.share(behind, 4 * kPage).error, 0U);
  memory = static_cast<std::uint64_t*>(::mremap(memory, 4 * kPage, 1024 * kPage, MREMAP_MAYMOVE));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(memory[0], 5U);
  for (std::size_t page = 4; page < 1024; ++page) {
    ASSERT_EQ(memory[page * 512], 0U);
    memory[page * 512] = page;
  }
  EXPECT_EQ(behind[0], 6U);
  ASSERT_EQ(daemon.share(memory, 1024 * kPage).error, 0U);
  EXPECT_EQ(daemon.load(memory + 1023 * 512), 1023U);
  ::munmap(memory, 1024 * kPage);
  ::munmap(behind, 4 * kPage);
}

TEST(Life, ReallocAndFreeOfPartlyConvertedChunks) {
  StandIn daemon;
  constexpr std::size_t kChunk = 1 << 20;  // a mapping of its own
  for (int round = 0; round < 8; ++round) {
    auto* chunk = static_cast<std::uint8_t*>(std::malloc(kChunk));
    std::memset(chunk, round + 1, kChunk);
    ASSERT_EQ(daemon.share(chunk + kChunk / 4, kChunk / 2).error, 0U);
    chunk = static_cast<std::uint8_t*>(std::realloc(chunk, 4 * kChunk));
    ASSERT_NE(chunk, nullptr);
    for (std::size_t i = 0; i < kChunk; ++i) {
      ASSERT_EQ(chunk[i], round + 1);
    }
    std::memset(chunk, 0xff, 4 * kChunk);
    std::free(chunk);
  }
}

TEST(Life, FreedMemoryGoesBackToTheSystem) {
  // Far more in total than is allocated at a time; if nothing were returned, this would take 2 GiB.
  constexpr std::size_t kBytes = 16 << 20;
  const auto shared_kib = [] {
    std::uint64_t kib = 0;
    std::FILE* const file = std::fopen("/proc/meminfo", "re");
    char line[128];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      std::sscanf(line, "Shmem: %lu", &kib);
    }
    std::fclose(file);
    return kib;
  };
  const std::uint64_t before = shared_kib();
  for (int round = 0; round < 40; ++round) {
    std::uint64_t* const memory = map(kBytes);
    std::memset(memory, 1, kBytes);
    const auto description = shim::describe_memory(number_of(memory), kBytes, kWriting);
    ASSERT_TRUE(description);
    shim::release_memory(description->held);
    ::munmap(memory, kBytes);
  }
  EXPECT_LT(shared_kib(), before + (320 << 10));
}

TEST(Life, ForkedChildHasItsOwn) {
  StandIn daemon;
  std::uint64_t* const memory = map(16 * kPage);
  std::uint64_t* const untouched = map(16 * kPage);
  std::uint64_t* const constant = map(kPage);
  for (std::size_t i = 0; i < 16 * 512; ++i) {
    memory[i] = i;
  }
  ASSERT_EQ(daemon.share(untouched, 16 * kPage).error, 0U);
  ASSERT_EQ(daemon.share(memory, 16 * kPage).error, 0U);
  ASSERT_EQ(daemon.share(constant, kPage, 0).error, 0U);
  ::mprotect(constant, kPage, PROT_READ);
  ASSERT_EQ(daemon.share(memory, 16 * kPage).error, 0U);
  const int failed = in_child([&] {
    for (std::size_t i = 0; i < 16 * 512; ++i) {
      if (memory[i] != i || untouched[i] != 0) {
        return 1;
      }
      memory[i] = 99;
      untouched[i] = 99;
    }
    bool read_only = false;
    const bool all = shim::for_each_area([&](const shim::AreaRange& area) {
      if (number_of(constant) >= area.start && number_of(constant) < area.end) {
        read_only = area.protection == PROT_READ && !area.shared;
      }
    });
    return all && read_only ? 0 : 2;
  });
  EXPECT_EQ(failed, 0);
  for (std::size_t i = 0; i < 16 * 512; ++i) {
    ASSERT_EQ(memory[i], i);
    ASSERT_EQ(untouched[i], 0U);
  }
  EXPECT_TRUE(daemon.store(memory, 1234));
  EXPECT_EQ(memory[0], 1234U);
}

// Closing one makes the kernel walk all mappings of the process.
TEST(Life, OneUserfaultfdServesAllConversions) {
  const auto count = [] {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      found += std::filesystem::read_symlink(entry, gone) == "anon_inode:[userfaultfd]" ? 1 : 0;
    }
    return found;
  };
  StandIn daemon;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(daemon.share(map(kPage), kPage).error, 0U);
  }
  if (!shim::open_user_fault().descriptor.valid()) {
    GTEST_SKIP() << "the system refuses userfaultfd(2)";
  }
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(in_child(count), 0);
}

TEST(Life, ForkedChildSharesOnItsOwn) {
  StandIn first;
  std::uint64_t* const memory = map(4 * kPage);
  memory[0] = 1;
  ASSERT_EQ(first.share(memory, 4 * kPage).error, 0U);
  const int failed = in_child([&] {
    StandIn second;
    if (second.share(memory, 4 * kPage).error != 0 || second.load(memory) != 1) {
      return 1;
    }
    memory[1] = 2;
    if (second.load(memory + 1) != 2 || !second.store(memory, 3) || memory[0] != 3) {
      return 2;
    }
    return 0;
  });
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(memory[0], 1U);
  EXPECT_EQ(memory[1], 0U);
  ::munmap(memory, 4 * kPage);
}

// Otherwise the stores of a second thread of the child's could be lost, where userfaultfd is
// refused.
TEST(Life, AForkedChildDoesntCountItsParentsThreads) {
  StandIn first;
  ASSERT_EQ(first.share(map(kPage), kPage).error, 0U);
  EXPECT_GE(shim::IsolatedThread::count(), 1);
  const int failed = in_child([] {
    StandIn second;
    if (shim::IsolatedThread::count() != 0 || second.share(map(kPage), kPage).error != 0) {
      return 1;
    }
    if (!shim::one_thread()) {
      return 2;
    }
    std::atomic<bool> stop{false};
    std::thread other([&] { stop.wait(false); });
    const bool counted = !shim::one_thread();
    stop = true;
    stop.notify_one();
    other.join();
    return counted ? 0 : 3;
  });
  EXPECT_EQ(failed, 0);
}

TEST(Life, ForksWhileOthersRegister) {
  std::atomic<bool> stop{false};
  std::thread registers([&] {
    while (!stop) {
      std::uint64_t* const memory = map(16 * kPage);
      memory[0] = 1;
      const auto description = shim::describe_memory(number_of(memory), 16 * kPage, kWriting);
      EXPECT_TRUE(description);
      shim::release_memory(description->held);
      ::munmap(memory, 16 * kPage);
    }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(in_child([] { return std::malloc(1000) == nullptr ? 1 : 0; }), 0);
  }
  stop = true;
  registers.join();
}

// A program that closes all descriptors and opens a file of its own, which gets the arena's number.
TEST(Life, AFileOfTheProgramIsNotTakenForTheArena) {
  const int status = in_child([] {
    StandIn daemon;
    std::uint64_t* const memory = map(4 * kPage);
    memory[0] = 1;
    memory[3 * 512] = 3;
    if (daemon.share(memory, 4 * kPage).error != 0) {
      return 1;
    }
    ::close_range(3, ~0U, 0);
    int files[64];
    for (int& file : files) {  // one of them gets the number
      file = ::open("/tmp", O_TMPFILE | O_RDWR, 0600);
      if (file < 0 || ::ftruncate(file, 1 << 24) != 0 || ::pwrite(file, "kept", 4, 0) != 4) {
        return 2;
      }
    }
    const int in_grandchild_failed = in_child([&] {
      for (const int file : files) {
        if (::fcntl(file, F_GETFD) < 0) {
          return 2;
        }
      }
      return memory[0] == 1 && memory[3 * 512] == 3 ? (memory[0] = 9, 0) : 1;
    });
    if (in_grandchild_failed != 0 || memory[0] != 1) {
      return 3;
    }
    if (::madvise(memory, kPage, MADV_DONTNEED) != 0 || memory[0] != 0 || memory[3 * 512] != 3) {
      return 4;
    }
    ::munmap(memory, 4 * kPage);
    for (const int file : files) {
      char bytes[4] = {};
      if (::pread(file, bytes, 4, 0) != 4 || std::memcmp(bytes, "kept", 4) != 0) {
        return 5;
      }
    }
    return 0;
  });
  EXPECT_EQ(status, 0);
}

// malloc's data at the start of a thread's heap is reset by libc in a fork's child before any fork
// handler runs there.
TEST(Life, ForksKeepTheMallocOfOtherThreadsIntact) {
  if (has_asan_malloc()) {
    GTEST_SKIP() << "AddressSanitizer's malloc has no such heaps";
  }
  constexpr std::uint64_t kThreadHeap = 64 << 20;
  const int failed = in_child([] {
    std::promise<void*> allocated;
    std::promise<void> forked;
    std::thread other([&] {
      void* const mine = std::malloc(64);
      allocated.set_value(mine);
      forked.get_future().wait();
      std::free(mine);  // and, when it ends, its part in malloc's arena
    });
    const std::uint64_t heap = number_of(allocated.get_future().get()) / kThreadHeap * kThreadHeap;
    const auto description = shim::describe_memory(heap, 8 * kPage, kWriting);
    const bool head_only = description && description->pieces.size() == 2 &&
                           description->pieces[0].kind == abi::PieceKind::kProcMem &&
                           description->pieces[0].length == kPage &&
                           description->pieces[1].kind == abi::PieceKind::kArena;
    const int grandchild = in_child([] { return 0; });
    forked.set_value();
    other.join();
    return grandchild != 0 ? 1 : head_only ? 0 : 2;
  });
  EXPECT_EQ(failed, 0);
}

// A program's own memory at such an address is converted like any other.
TEST(Life, MemoryAtMultiplesOfAHeapIsConverted) {
  constexpr std::uint64_t kThreadHeap = 64 << 20;
  std::uint64_t* const memory = map(3 * kThreadHeap);
  const auto description = shim::describe_memory(number_of(memory), 3 * kThreadHeap, kWriting);
  ASSERT_TRUE(description);
  ASSERT_EQ(description->pieces.size(), 1U);
  EXPECT_EQ(description->pieces[0].kind, abi::PieceKind::kArena);
  shim::release_memory(description->held);
  ::munmap(memory, 3 * kThreadHeap);
}

TEST(Life, RefusesAsTheKernelWould) {
  std::uint64_t* const memory = map(4 * kPage);
  ::munmap(memory + 512, kPage);
  ::mprotect(memory + 1024, kPage, PROT_READ);
  ::mprotect(memory + 1536, kPage, PROT_NONE);
  const auto error_of = [](const void* address, std::uint64_t length, std::uint32_t access) {
    auto result = shim::describe_memory(number_of(address), length, access);
    if (result) {
      shim::release_memory(result->held);
    }
    return result ? 0 : result.error().code;
  };
  EXPECT_EQ(error_of(memory, 2 * kPage, kWriting), EFAULT);
  EXPECT_EQ(error_of(memory + 1024, kPage, kWriting), EFAULT);
  EXPECT_EQ(error_of(memory + 1024, kPage, kAccessRemoteRead), 0);
  EXPECT_EQ(error_of(memory + 1536, kPage, 0), EFAULT);
  EXPECT_EQ(error_of(memory, 0, kWriting), EINVAL);
  EXPECT_EQ(error_of(memory, ~0ULL, kWriting), EINVAL);
  EXPECT_EQ(error_of(nullptr, ~0ULL - kPage, kWriting), EFAULT);
  ::munmap(memory, 4 * kPage);
}

}  // namespace
}  // namespace uroce::test
