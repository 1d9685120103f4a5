// Every kind of memory that a program can register: both sides see each other's writes, at the
// program's own addresses, and earlier contents are kept.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "tests/unit/shim_memory/stand_in.h"
#include "tests/unit/temporary_folder.h"
#include "verbs_shim/memory/sharing/memory_kind.h"
#include "verbs_shim/memory/sharing/memory_map.h"

namespace uroce::test {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHuge = 2 << 20;

alignas(kPage) std::uint64_t in_bss[64 * 1024];
std::uint64_t in_data[1024] = {1, 2, 3};

void* map(std::size_t length, int flags, int descriptor = -1) {
  void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return memory;
}

// Whether the test runs with UROCE_MEMORY=copy, an oracle for everything that sharing does.
bool copying() {
  const char* const chosen = std::getenv("UROCE_MEMORY");
  return chosen != nullptr && std::string_view(chosen) == "copy";
}

// Raises the machine's number of huge pages during its lifetime, if permitted. Other tests that do
// the same wait for it.
class HugePages {
 public:
  explicit HugePages(int count) : file_(::open("/proc/sys/vm/nr_hugepages", O_RDWR | O_CLOEXEC)) {
    char text[32] = {};
    if (file_.valid() && ::flock(file_.get(), LOCK_EX) == 0 &&
        ::pread(file_.get(), text, sizeof(text) - 1, 0) > 0) {
      before_ = std::atoi(text);
      set(before_ + count);
    }
  }
  ~HugePages() {
    if (before_ >= 0) {
      set(before_);
    }
  }
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;

 private:
  void set(int count) const {
    const std::string text = std::to_string(count);
    // At offset 0: a sysctl ignores writes at other offsets.
    EXPECT_EQ(::pwrite(file_.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
  }
  UniqueFd file_;
  int before_ = -1;
};

int free_huge_pages() {
  const UniqueFd file(
      ::open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", O_RDONLY | O_CLOEXEC));
  char text[32] = {};
  return ::read(file.get(), text, sizeof(text) - 1) > 0 ? std::atoi(text) : 0;
}

class Kinds : public ::testing::Test {
 protected:
  // Shares words[0, count) and checks that writes to the first and the last are seen both ways.
  void see_both_ways(std::uint64_t* words, std::size_t count, std::uint32_t remote_pieces = 0) {
    volatile std::uint64_t* const program = words;
    program[0] = 17;
    program[count - 1] = 18;
    const Registered registered = daemon_.share(words, count * sizeof(*words));
    ASSERT_EQ(registered.error, 0U);
    EXPECT_EQ(registered.remote_pieces, copying() ? 1 : remote_pieces);
    for (const std::size_t at : {std::size_t{0}, count - 1}) {
      EXPECT_EQ(program[at], at == 0 ? 17U : 18U);
      EXPECT_EQ(daemon_.load(words + at), at == 0 ? 17U : 18U);
      EXPECT_TRUE(daemon_.store(words + at, 1000 + at));
      EXPECT_EQ(program[at], 1000 + at);
      program[at] = 2000 + at;
      EXPECT_EQ(daemon_.load(words + at), 2000 + at);
      EXPECT_TRUE(daemon_.add(words + at, 5));
      EXPECT_EQ(program[at], 2005 + at);
    }
  }

  void see_both_ways(void* memory, std::size_t bytes, std::uint32_t remote_pieces = 0) {
    see_both_ways(static_cast<std::uint64_t*>(memory), bytes / sizeof(std::uint64_t),
                  remote_pieces);
  }

  StandIn daemon_;
};

TEST_F(Kinds, AnonymousUntouched) {
  void* const memory = map(1 << 20, MAP_PRIVATE | MAP_ANONYMOUS);
  see_both_ways(memory, 1 << 20);
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, AnonymousTouched) {
  auto* const memory = static_cast<std::uint8_t*>(map(1 << 20, MAP_PRIVATE | MAP_ANONYMOUS));
  for (std::size_t i = 0; i < (1 << 20); ++i) {
    memory[i] = static_cast<std::uint8_t>(i * 7 + i / kPage);
  }
  ASSERT_EQ(daemon_.share(memory, 1 << 20).error, 0U);
  for (std::size_t i = 0; i < (1 << 20); ++i) {
    ASSERT_EQ(memory[i], static_cast<std::uint8_t>(i * 7 + i / kPage)) << i;
  }
  const auto seen = daemon_.read(memory + 5, 60'000);
  ASSERT_EQ(seen.size(), 60'000U);
  EXPECT_EQ(std::memcmp(seen.data(), memory + 5, seen.size()), 0);
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, TransparentHugePages) {
  void* const room = map(3 * kHuge, MAP_PRIVATE | MAP_ANONYMOUS);
  void* const memory =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(room) + kHuge - 1) / kHuge * kHuge);
  ::madvise(memory, kHuge, MADV_HUGEPAGE);
  std::memset(memory, 3, kHuge);
  see_both_ways(memory, kHuge);
  EXPECT_EQ(static_cast<std::uint8_t*>(memory)[kHuge / 2], 3);
  ::munmap(room, 3 * kHuge);
}

TEST_F(Kinds, Bss) { see_both_ways(in_bss, std::size(in_bss)); }

TEST_F(Kinds, HeapInTheMiddle) {
  // Small enough for the heap itself rather than a mapping of its own.
  std::vector<void*> chunks;
  for (int i = 0; i < 64; ++i) {
    chunks.push_back(std::malloc(20'000));
    std::memset(chunks.back(), i, 20'000);
  }
  auto* const middle = reinterpret_cast<std::uint64_t*>(chunks[32]);
  see_both_ways(middle, 2500);
  for (int i = 0; i < 64; ++i) {
    const auto* bytes = static_cast<std::uint8_t*>(chunks[static_cast<std::size_t>(i)]);
    EXPECT_EQ(bytes[10'000], i);
    std::free(chunks[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < 64; ++i) {
    chunks[static_cast<std::size_t>(i)] = std::calloc(1, 30'000);
  }
  for (void* chunk : chunks) {
    EXPECT_EQ(static_cast<std::uint8_t*>(chunk)[29'999], 0);
    std::free(chunk);
  }
}

TEST_F(Kinds, Stack) {
  // AddressSanitizer moves arrays off the stack, but not memory from alloca().
  constexpr std::size_t kBytes = 8192;
  see_both_ways(__builtin_alloca(kBytes), kBytes, 1);
}

// As after mlock(2). If its part of the stack were shared, a fork's child would run on its
// parent's.
TEST_F(Kinds, StackOfSeveralMappings) {
  constexpr std::size_t kBytes = 8 * kPage;
  const auto room = reinterpret_cast<std::uintptr_t>(__builtin_alloca(3 * kBytes));
  auto* const locked = reinterpret_cast<std::byte*>((room + kBytes + kPage - 1) / kPage * kPage);
  ASSERT_EQ(::mlock(locked, kBytes), 0);
  see_both_ways(locked, kBytes, 1);
  EXPECT_EQ(::munlock(locked, kBytes), 0);
}

bool shows_guard(const std::byte* page) {
  constexpr std::uint64_t kGuard = 1ULL << 58U;
  const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::uint64_t entry = 0;
  const auto offset = reinterpret_cast<std::uintptr_t>(page) / kPage * sizeof(entry);
  return ::pread(pagemap.get(), &entry, sizeof(entry), static_cast<off_t>(offset)) ==
             sizeof(entry) &&
         (entry & kGuard) != 0;
}

// A thread's stack as made by glibc 2.42.
TEST_F(Kinds, StackWithAGuardInsideItsMapping) {
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
  constexpr std::size_t kBytes = 64 << 10;
  auto* const stack = static_cast<std::byte*>(map(kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK));
  if (::madvise(stack, kPage, kGuardInstall) != 0) {
    ::munmap(stack, kBytes);
    GTEST_SKIP() << "the kernel can't put guards into mappings (Linux 6.13)";
  }
  if (!shows_guard(stack)) {
    ::munmap(stack, kBytes);
    GTEST_SKIP() << "the kernel doesn't report guards in mappings (Linux 6.15)";
  }
  see_both_ways(stack + kBytes / 2, kBytes / 2, 1);
  // A mapping that the kernel may have placed right below or above it isn't taken for a stack.
  void* const other = map(kBytes, MAP_PRIVATE | MAP_ANONYMOUS);
  see_both_ways(other, kBytes, 0);
  ::munmap(other, kBytes);
  ::munmap(stack, kBytes);
}

TEST_F(Kinds, InitialisedData) { see_both_ways(in_data, std::size(in_data), 1); }

TEST_F(Kinds, SystemVSegment) {
  const int id = ::shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
  ASSERT_GE(id, 0);
  void* const memory = ::shmat(id, nullptr, 0);
  ::shmctl(id, IPC_RMID, nullptr);
  see_both_ways(memory, 1 << 20);
  ::shmdt(memory);
}

TEST_F(Kinds, SharedAnonymous) {
  void* const memory = map(1 << 20, MAP_SHARED | MAP_ANONYMOUS);
  see_both_ways(memory, 1 << 20);
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, Memfd) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  void* const memory = map(1 << 20, MAP_SHARED, file.get());
  see_both_ways(memory, 1 << 20);
  ::munmap(memory, 1 << 20);
}

// Mapped before it was sealed: the program may write to it, but nobody can map it for writing now.
TEST_F(Kinds, MemfdSealedAgainstFutureWriters) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  void* const memory = map(1 << 20, MAP_SHARED, file.get());
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  see_both_ways(memory, 1 << 20, 1);
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, SharedFile) {
  const TemporaryFolder folder;
  UniqueFd file(::open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  void* const memory = map(1 << 20, MAP_SHARED, file.get());
  file.reset();
  see_both_ways(memory, 1 << 20);
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, TruncatedFileIsAFailedCopy) {
  const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  auto* const memory = static_cast<std::uint64_t*>(map(1 << 20, MAP_SHARED, file.get()));
  ASSERT_EQ(daemon_.share(memory, 1 << 20).error, 0U);
  ASSERT_EQ(::ftruncate(file.get(), kPage), 0);
  EXPECT_EQ(daemon_.load(memory), 0U);
  EXPECT_FALSE(daemon_.store(memory + 4096, 1));
  EXPECT_FALSE(daemon_.add(memory + 4096, 1));
  EXPECT_TRUE(daemon_.store(memory, 1));
  ::munmap(memory, 1 << 20);
}

TEST_F(Kinds, PrivateHugePages) {
  const HugePages pages(8);
  void* const memory = ::mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) {
    GTEST_SKIP() << "the machine has no free huge pages of 2 MiB (vm.nr_hugepages)";
  }
  shim::MappedArea area;
  ASSERT_TRUE(shim::MemoryMap(false).at_or_above(reinterpret_cast<std::uintptr_t>(memory), &area));
  EXPECT_EQ(area.page_size, kHuge);
  see_both_ways(memory, 2 * kHuge);
  auto* const bytes = static_cast<std::uint8_t*>(memory);
  bytes[0] = bytes[kHuge] = 9;
  EXPECT_EQ(::madvise(memory, kHuge, MADV_DONTNEED), 0);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[kHuge], 9);
  ::munmap(memory, 2 * kHuge);
}

// They need free huge pages for one slice only (32 MiB): all at once would need as many as the
// buffer has, which is more than one slice and what programs of other tests may take meanwhile.
TEST_F(Kinds, PrivateHugePagesOfSeveralSlices) {
  constexpr std::size_t kBytes = 40 * kHuge;
  constexpr int kSlice = 16, kOfOthers = 16;
  constexpr int kPages = 40 + kSlice + kOfOthers;
  const HugePages pages(kPages);
  if (free_huge_pages() < kPages) {
    GTEST_SKIP() << "the machine has too few free huge pages of 2 MiB (vm.nr_hugepages)";
  }
  void* const memory = map(kBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB);
  std::memset(memory, 9, kBytes);
  see_both_ways(memory, kBytes);
  const auto* const bytes = static_cast<std::uint8_t*>(memory);
  EXPECT_EQ(std::count(bytes, bytes + kBytes, 9), kBytes - 2 * sizeof(std::uint64_t));
  shim::MappedArea area;
  ASSERT_TRUE(shim::MemoryMap().at_or_above(reinterpret_cast<std::uintptr_t>(memory), &area));
  EXPECT_EQ(area.end, reinterpret_cast<std::uintptr_t>(memory) + kBytes);
  ::munmap(memory, kBytes);
}

// The tests run in the main thread.
TEST(MainThreadBlock, IsFoundByAnyThread) {
  const auto own = static_cast<std::uint64_t>(pthread_self());
  EXPECT_EQ(shim::main_thread_control_block(), own);
  std::uint64_t found = 0;
  std::thread([&found] { found = shim::main_thread_control_block(); }).join();
  EXPECT_EQ(found, own);
}

}  // namespace
}  // namespace uroce::test
