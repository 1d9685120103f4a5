// Converting memory while threads write to it by stores, atomics and system calls: no write is
// lost, and the daemon sees all of them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/shim_memory/stand_in.h"
#include "verbs_shim/memory/sharing/user_fault.h"

namespace uroce::test {
namespace {

constexpr std::size_t kWordsOfPage = 512;
constexpr std::size_t kRoles = 4;  // word i belongs to thread i % kRoles

// The memory that all threads write to, and the final value expected of each word.
struct Field {
  explicit Field(std::size_t bytes) : words(bytes / sizeof(std::uint64_t)), expected(words) {
    memory = static_cast<std::uint64_t*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t page = 0; page < words / kWordsOfPage; page += 2) {
      memory[page * kWordsOfPage] = 0;  // half of the pages exist
    }
  }
  ~Field() { ::munmap(memory, words * sizeof(std::uint64_t)); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  std::size_t pick(std::mt19937_64& random, std::size_t role) const {
    return random() % (words / kRoles) * kRoles + role;
  }

  std::size_t words;
  std::vector<std::uint64_t> expected;
  std::uint64_t* memory;
  std::atomic<bool> stop{false};
  std::atomic<int> running{0};
  std::atomic<std::uint64_t> writes{0};
};

template <typename Write>
void hammer(Field& field, std::size_t role, Write write) {
  std::mt19937_64 random(role);
  std::uint64_t count = 0;
  field.running.fetch_add(1);
  while (!field.stop.load(std::memory_order_relaxed)) {
    const std::size_t at = field.pick(random, role);
    write(&field.memory[at], &field.expected[at], ++count);
  }
  field.writes.fetch_add(count);
}

void store(std::uint64_t* word, std::uint64_t* expected, std::uint64_t value) {
  // Read back first: a lost write is detected even if a later one covers it.
  if (*static_cast<volatile std::uint64_t*>(word) != *expected) {
    *expected = ~0ULL;  // never matches
    return;
  }
  *static_cast<volatile std::uint64_t*>(word) = value;
  *expected = value;
}

// Converts the field in pieces of `piece` bytes while threads write to it, then checks every word
// here and in the daemon.
void convert_under_fire(std::size_t bytes, std::size_t piece) {
  StandIn daemon;
  Field field(bytes);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const auto through_kernel = [&](std::uint64_t* word, std::uint64_t* expected,
                                  std::uint64_t value) {
    const bool sent = ::write(ends[1], &value, sizeof(value)) == sizeof(value);
    const bool there = ::read(ends[0], word, sizeof(value)) == sizeof(value);
    *expected = sent && there ? value : ~0ULL;
  };
  const auto add = [](std::uint64_t* word, std::uint64_t* expected, std::uint64_t) {
    std::atomic_ref<std::uint64_t>(*word).fetch_add(3);
    *expected += 3;
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { hammer(field, 0, store); });
  threads.emplace_back([&] { hammer(field, 1, store); });
  threads.emplace_back([&] { hammer(field, 2, through_kernel); });
  threads.emplace_back([&] { hammer(field, 3, add); });
  while (field.running.load() != static_cast<int>(kRoles)) {
    std::this_thread::yield();
  }
  auto* const start = reinterpret_cast<std::byte*>(field.memory);
  for (std::size_t at = 0; at < bytes; at += piece) {
    const auto registered = daemon.share(start + at, piece);
    EXPECT_EQ(registered.error, 0U);
    EXPECT_EQ(registered.remote_pieces, 0U);
  }
  field.stop = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_GT(field.writes.load(), 0U);
  for (std::size_t i = 0; i < field.words; ++i) {
    ASSERT_EQ(field.memory[i], field.expected[i]) << "word " << i;
  }
  ASSERT_EQ(daemon.share(start, bytes).error, 0U);
  constexpr std::uint32_t kChunk = 64 << 10;
  for (std::size_t at = 0; at < bytes; at += kChunk) {
    const auto seen = daemon.read(start + at, kChunk);
    ASSERT_EQ(seen.size(), kChunk);
    ASSERT_EQ(std::memcmp(seen.data(), start + at, kChunk), 0) << "at " << at;
  }
}

// Memory of a program with threads is converted only where stores can be held up meanwhile.
class Hammer : public testing::Test {
 protected:
  void SetUp() override {
    if (!shim::open_user_fault().descriptor.valid()) {
      GTEST_SKIP()
          << "the kernel has no userfaultfd, or none that holds writers (arm64: Linux 6.10)";
    }
  }
};

TEST_F(Hammer, LargePieces) { convert_under_fire(16 << 20, 8 << 20); }
TEST_F(Hammer, ManyPieces) { convert_under_fire(16 << 20, 1 << 20); }
TEST_F(Hammer, SinglePages) { convert_under_fire(1 << 20, 4096); }

TEST_F(Hammer, RepeatedConversions) {
  const char* const rounds = std::getenv("UROCE_MEMORY_ROUNDS");  // more, for a soak
  for (int i = 0; i < (rounds == nullptr ? 2 : std::atoi(rounds)); ++i) {
    convert_under_fire(16 << 20, i % 2 == 0 ? 16 << 20 : 1 << 20);
  }
}

// A page that is dropped while it is converted must not stop the conversion.
TEST_F(Hammer, PagesDroppedDuringConversion) {
  constexpr std::size_t kBytes = 8 << 20;
  StandIn daemon;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, kBytes);
  std::atomic<bool> stop{false};
  std::thread dropper([&] {
    while (!stop) {
      ::madvise(memory, kBytes, MADV_DONTNEED);
    }
  });
  EXPECT_EQ(daemon.share(memory, kBytes).error, 0U);
  stop = true;
  dropper.join();
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace uroce::test
