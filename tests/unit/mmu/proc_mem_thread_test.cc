#include "mmu/proc_mem/proc_mem_thread.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "mmu/proc_mem/proc_mem.h"
#include "tests/unit/mmu/held_up.h"

namespace uroce::test {
namespace {

constexpr std::uint32_t kTestUid = 4'711;                     // not counted for any other test
constexpr User kOther{.uid = kTestUid, .user_namespace = 1};  // same uid, elsewhere

std::shared_ptr<const UniqueFd> own_memory() {
  return std::make_shared<const UniqueFd>(
      std::move(open_proc_mem(ProgramProcess(::getpid(), ::getuid(), ::getgid())).value()));
}

std::uint64_t address_of(const void* bytes) { return reinterpret_cast<std::uint64_t>(bytes); }

class ProcMemThreadTest : public testing::Test {
 protected:
  std::unique_ptr<ProcMemCopy> make(ProcMemCopy::Kind kind, const void* where, std::size_t length) {
    auto copy = std::make_unique<ProcMemCopy>();
    copy->kind = kind;
    copy->segments.push_back({.address = address_of(where), .length = length});
    copy->bytes = std::make_unique<std::byte[]>(length);
    copy->length = length;
    copy->needed = length;
    copy->program = program_;
    copy->notifier = notifier_;
    return copy;
  }
  void carry_out(ProcMemCopy& copy) {
    ASSERT_TRUE(program_->put(&copy));
    while (copy.state.load(std::memory_order_acquire) != ProcMemCopy::State::kDone) {
      std::this_thread::yield();
    }
  }

  std::shared_ptr<ProcMemThread> program_ =
      ProcMemThread::start(own_memory(), {.uid = kTestUid}).value();
  std::shared_ptr<CopyNotifier> notifier_ = std::make_shared<CopyNotifier>(std::function<void()>());
};

TEST_F(ProcMemThreadTest, ReadsWritesAndDoesAtomics) {
  alignas(8) std::array<std::byte, 64> memory{};
  memory.fill(std::byte{7});
  const auto read = make(ProcMemCopy::Kind::kRead, memory.data(), 64);
  carry_out(*read);
  EXPECT_EQ(read->outcome, Access::kGranted);
  EXPECT_EQ(std::memcmp(read->bytes.get(), memory.data(), 64), 0);

  const auto write = make(ProcMemCopy::Kind::kWrite, memory.data(), 8);
  write->segments = {{address_of(memory.data()), 3}, {address_of(memory.data() + 32), 5}};
  carry_out(*write);
  EXPECT_EQ(write->outcome, Access::kGranted);
  EXPECT_EQ(memory[2], std::byte{0});
  EXPECT_EQ(memory[3], std::byte{7});
  EXPECT_EQ(memory[36], std::byte{0});

  std::uint64_t word = 40;
  const auto add = make(ProcMemCopy::Kind::kFetchAdd, &word, 8);
  add->operand = 2;
  carry_out(*add);
  EXPECT_EQ(add->original, 40U);
  const auto swap = make(ProcMemCopy::Kind::kCompareSwap, &word, 8);
  swap->compare = 42;
  swap->operand = 1;
  carry_out(*swap);
  EXPECT_EQ(swap->original, 42U);
  EXPECT_EQ(std::atomic_ref(word).load(), 1U);
}

TEST_F(ProcMemThreadTest, MissingMemoryAheadIsNoError) {
  const auto pages = static_cast<std::byte*>(
      ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::munmap(pages + 4096, 4096);
  const auto read = make(ProcMemCopy::Kind::kRead, pages, 8192);
  read->needed = 100;
  carry_out(*read);
  EXPECT_EQ(read->outcome, Access::kGranted);
  EXPECT_EQ(read->length, 4096U);
  const auto all = make(ProcMemCopy::Kind::kRead, pages, 8192);
  carry_out(*all);
  EXPECT_EQ(all->outcome, Access::kLost);
  ::munmap(pages, 4096);
}

TEST_F(ProcMemThreadTest, CopiesOfAUserAreBounded) {
  HeldUp held(*program_);
  std::vector<std::unique_ptr<ProcMemCopy>> waiting;
  for (;;) {
    auto copy = make(ProcMemCopy::Kind::kWrite, this, 0);
    if (!program_->put(copy.get())) {
      break;
    }
    waiting.push_back(std::move(copy));
  }
  EXPECT_EQ(waiting.size(), ProcMemThread::kWaitingMax - 1);
  // Another program of the same user doesn't have to wait.
  const auto other = ProcMemThread::start(own_memory(), {.uid = kTestUid}).value();
  const auto copy = make(ProcMemCopy::Kind::kWrite, this, 0);
  ASSERT_TRUE(other->put(copy.get()));
  while (copy->state.load(std::memory_order_acquire) != ProcMemCopy::State::kDone) {
    std::this_thread::yield();
  }
  std::atomic<bool> idle{false};
  EXPECT_FALSE(program_->when_idle([&] {
    idle = true;
    idle.notify_all();
  }));
  held.release();
  idle.wait(false);
  for (const auto& done : waiting) {
    EXPECT_EQ(done->state.load(), ProcMemCopy::State::kDone);
  }
  EXPECT_TRUE(program_->when_idle({}));
}

// A worker gives up just as the helper finishes: exactly one of them owns the copy then.
TEST_F(ProcMemThreadTest, EachCopyHasExactlyOneOwner) {
  std::array<std::byte, 4096> memory{};
  memory.fill(std::byte{7});
  std::uint32_t done = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto copy = make(ProcMemCopy::Kind::kRead, memory.data(), i % 2 == 0 ? 8 : 4096);
    while (!program_->put(copy.get())) {
      std::this_thread::yield();
    }
    for (int looks = i % 64; looks > 0; --looks) {
      (void)copy->state.load(std::memory_order_acquire);
    }
    if (ProcMemThread::abandon(copy.get())) {
      ++done;
      ASSERT_EQ(copy->outcome, Access::kGranted);
      ASSERT_EQ(std::memcmp(copy->bytes.get(), memory.data(), copy->length), 0);
    } else {
      (void)copy.release();
    }
  }
  std::atomic<bool> idle{false};
  if (!program_->when_idle([&] {
        idle = true;
        idle.notify_all();
      })) {
    idle.wait(false);
  }
  EXPECT_EQ(notifier_->count(), done)
      << "the helper notifies of those that it leaves to the worker";
  EXPECT_EQ(program_.use_count(), 1) << "each copy holds its program, and all have been deleted";
}

TEST_F(ProcMemThreadTest, ThreadsOfAUserAreBounded) {
  std::vector<std::shared_ptr<ProcMemThread>> programs;
  const auto memory = own_memory();
  for (;;) {
    auto program = ProcMemThread::start(memory, kOther);
    if (!program) {
      EXPECT_EQ(program.error().code, ENOMEM);
      break;
    }
    programs.push_back(std::move(*program));
    ASSERT_LE(programs.size(), ProcMemThread::kUserThreadsMax);
  }
  EXPECT_TRUE(ProcMemThread::start(memory, {.uid = kTestUid})) << "another user's";
  programs.clear();
  Result<std::shared_ptr<ProcMemThread>> again = ProcMemThread::start(memory, kOther);
  while (!again) {  // until the threads have ended
    std::this_thread::yield();
    again = ProcMemThread::start(memory, kOther);
  }
}

}  // namespace
}  // namespace uroce::test
