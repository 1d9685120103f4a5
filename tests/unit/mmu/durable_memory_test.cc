#include "mmu/pinned/durable_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "mmu/backing_file.h"
#include "mmu/pinned/program_memory.h"
#include "shares/shares.h"
#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

// The kernel refuses to sync unmapped addresses, so a hole shows which pages were synced.
TEST(DurableMemory, SyncsThePagesOfTheRange) {
  auto* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(::munmap(pages + kPage, kPage), 0);
  const DurableMemory memory(
      kBase,
      {{.start = 0, .length = 96, .host = pages + kPage - 96, .remote_address = 0},
       {.start = 96, .length = 100, .host = pages + kPage, .remote_address = 0},
       {.start = 196, .length = 50, .host = pages + 2 * kPage, .remote_address = 0},
       {.start = 246, .length = 10, .host = nullptr, .remote_address = 0}},
      {});
  EXPECT_EQ(memory.sync(kBase + 10, 86), Access::kGranted);
  EXPECT_EQ(memory.sync(kBase + 10, 87), Access::kLost);
  EXPECT_EQ(memory.sync(kBase + 195, 10), Access::kLost);
  EXPECT_EQ(memory.sync(kBase + 196, 50), Access::kGranted);
  EXPECT_EQ(memory.sync(kBase + 196, 51), Access::kLost)
      << "memory reached the slow way can't be synced";
  EXPECT_EQ(memory.sync(kBase + 96, 0), Access::kGranted);
  ::munmap(pages, 3 * kPage);
}

// Regions of a file, and whether it is still mapped anywhere.
class FileRegions : public testing::Test {
 protected:
  FileRegions() : file_(::mkstemp(path_.data())) {
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(kPage)), 0);
  }
  void SetUp() override {
    const auto facts = check_file(file_.get());
    if (!facts || !facts->durable) {
      GTEST_SKIP() << "/var/tmp isn't on a disk";
    }
  }
  ~FileRegions() override { ::unlink(path_.c_str()); }

  std::unique_ptr<Region> make_region() {
    const abi::MemoryPiece piece{.address = kBase,
                                 .length = kPage,
                                 .offset = 0,
                                 .map_start = 0,
                                 .map_end = 0,
                                 .kind = abi::PieceKind::kDescriptor,
                                 .source = 0};
    const int descriptor = file_.get();
    auto region = program_.make_region({.pd = 1,
                                        .access = kAccessLocalWrite | kAccessFlushPersistent,
                                        .address = kBase,
                                        .length = kPage,
                                        .iova = 0},
                                       {&piece, 1}, {&descriptor, 1});
    EXPECT_TRUE(region) << region.error().message;
    return region ? std::move(*region) : nullptr;
  }
  [[nodiscard]] bool mapped() const {
    std::stringstream maps;
    maps << std::ifstream("/proc/self/maps").rdbuf();
    return maps.str().find(path_) != std::string::npos;
  }

  std::string path_ = "/var/tmp/uroce-durable-XXXXXX";
  UniqueFd file_;
  ProgramMemory program_{make_private_account()};
};

// A program deregisters while the disk is busy, and registers again: the memory being written back
// stays where it is, and is released by the thread that waited.
TEST_F(FileRegions, MemoryOutlivesItsRegionUntilTheDiskIsDone) {
  auto region = make_region();
  ASSERT_NE(region, nullptr);
  std::shared_ptr<const DurableMemory> durable = region->durable();
  region.reset();
  ASSERT_NE(durable, nullptr);
  EXPECT_TRUE(mapped());
  std::thread disk([durable = std::move(durable)]() mutable {
    EXPECT_EQ(durable->sync(kBase, kPage), Access::kGranted);
    durable.reset();
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(make_region(), nullptr);
  }
  disk.join();
  EXPECT_FALSE(mapped());
}

}  // namespace
}  // namespace uroce::test
