#include "mmu/remote_batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "mmu/remote_memory.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

constexpr std::size_t kBatchPages = 32;

// The program is this process itself. Whether a call was made shows in what it sees.
class RemoteBatchTest : public ::testing::Test {
 protected:
  RemoteBatchTest()
      : memory_(static_cast<std::byte*>(::mmap(nullptr, kBatchPages * kPage, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    fill(std::byte{1});
  }
  ~RemoteBatchTest() override { ::munmap(memory_, kBatchPages * kPage); }

  void fill(std::byte value) { std::fill_n(memory_, kBatchPages * kPage, value); }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(memory_) + offset;
  }
  // The value of all bytes read; 0 if they couldn't be.
  int read(std::size_t offset, std::size_t length, std::uint64_t ahead) {
    const std::byte* const bytes = batch_.read(program_.get(), address(offset), length, ahead);
    if (bytes == nullptr) {
      return 0;
    }
    EXPECT_TRUE(std::all_of(bytes, bytes + length, [&](std::byte b) { return b == bytes[0]; }));
    return static_cast<int>(bytes[0]);
  }
  void write(std::size_t offset, std::size_t length, std::byte value, bool more) {
    const std::vector<std::byte> bytes(length, value);
    batch_.write(program_.get(), address(offset), bytes.data(), length, more, &failed_);
  }
  [[nodiscard]] int at(std::size_t offset) const { return static_cast<int>(memory_[offset]); }

  std::byte* memory_;
  UniqueFd program_ = std::move(open_remote_memory(::getpid(), ::getuid()).value());
  RemoteBatch batch_;
  bool failed_ = false;
};

TEST_F(RemoteBatchTest, ReadsOnceForWhatFollows) {
  EXPECT_EQ(read(100, 1000, 2500), 1);
  fill(std::byte{2});
  EXPECT_EQ(read(1100, 1000, 1500), 1);
  EXPECT_EQ(read(2100, 1500, 0), 1);
  EXPECT_EQ(read(3600, 10, 0), 2) << "wasn't announced";
}

TEST_F(RemoteBatchTest, NothingIsReadTwiceFromTheBuffer) {
  EXPECT_EQ(read(0, 1000, 5000), 1);
  fill(std::byte{2});
  EXPECT_EQ(read(0, 1000, 5000), 2) << "sent again";
  fill(std::byte{3});
  EXPECT_EQ(read(2000, 1000, 3000), 3) << "not where it was";
  fill(std::byte{4});
  batch_.forget();
  EXPECT_EQ(read(3000, 1000, 0), 4);
}

TEST_F(RemoteBatchTest, ReadsFurtherAheadWhileAllOfItIsUsed) {
  EXPECT_EQ(read(0, kPage, kBatchPages * kPage), 1);
  fill(std::byte{2});
  EXPECT_EQ(read(kPage, RemoteBatch::kReadAheadMin, kBatchPages * kPage), 1);
  const std::size_t next = kPage + RemoteBatch::kReadAheadMin;
  EXPECT_EQ(read(next, kPage, kBatchPages * kPage), 2);
  fill(std::byte{3});
  EXPECT_EQ(read(next + kPage, 2 * RemoteBatch::kReadAheadMin, kBatchPages * kPage), 2);
}

TEST_F(RemoteBatchTest, WhatIsMissingAheadIsNoError) {
  ::munmap(memory_ + kPage, kPage);
  EXPECT_EQ(read(0, kPage, kPage), 1);
  EXPECT_EQ(read(kPage, 8, 0), 0);
  EXPECT_EQ(read(kPage - 8, 16, 0), 0);
  EXPECT_EQ(read(2 * kPage, 8, 0), 1);
}

TEST_F(RemoteBatchTest, WritesWaitForTheRestOfTheirMessage) {
  write(0, 1000, std::byte{5}, true);
  write(1000, 1000, std::byte{6}, true);
  EXPECT_EQ(at(0), 1);
  write(2000, 500, std::byte{7}, false);
  EXPECT_TRUE(batch_.finish(&failed_));
  EXPECT_EQ(at(0), 5);
  EXPECT_EQ(at(999), 5);
  EXPECT_EQ(at(1000), 6);
  EXPECT_EQ(at(2499), 7);
  EXPECT_EQ(at(2500), 1);
}

TEST_F(RemoteBatchTest, AFlushWritesWhatWaits) {
  write(0, 1000, std::byte{5}, true);
  batch_.flush();
  EXPECT_EQ(at(999), 5);
  batch_.flush();
  write(1000, 1000, std::byte{6}, false);
  EXPECT_EQ(at(1999), 6) << "whoever is alone doesn't wait";
  EXPECT_FALSE(failed_);
}

TEST_F(RemoteBatchTest, WhatDoesNotContinueIsWrittenApartAndInOrder) {
  write(0, 1000, std::byte{5}, true);
  write(500, 1000, std::byte{6}, true);
  EXPECT_EQ(at(499), 5);
  EXPECT_EQ(at(500), 5);
  EXPECT_TRUE(batch_.finish(&failed_));
  EXPECT_EQ(at(500), 6);
  for (std::size_t i = 0; i < kBatchPages; ++i) {
    write(i * kPage, kPage, std::byte{7}, true);
  }
  EXPECT_EQ(at(0), 7) << "the buffer was full";
  EXPECT_EQ(at((kBatchPages - 1) * kPage), 1);
}

TEST_F(RemoteBatchTest, WhoeverTookWhatCannotBeWrittenIsTold) {
  ::munmap(memory_ + kPage, kPage);
  bool other = false;
  write(kPage - 8, 16, std::byte{5}, true);
  EXPECT_FALSE(failed_);
  const std::byte good{6};
  batch_.write(program_.get(), address(0), &good, 1, true, &other);
  EXPECT_TRUE(failed_) << "it came in between";
  EXPECT_FALSE(batch_.finish(&failed_));
  EXPECT_FALSE(failed_) << "it is told once";
  EXPECT_TRUE(batch_.finish(&other));
  EXPECT_EQ(at(0), 6);
  write(kPage, 8, std::byte{5}, false);
  EXPECT_FALSE(batch_.finish(&failed_));
}

}  // namespace
}  // namespace uroce::test
