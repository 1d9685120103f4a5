// Which kinds of files the daemon accepts and maps: those on which no program can make it block.

#include "mmu/backing_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "tests/unit/mmu/pages.h"

namespace uroce::test {
namespace {

UniqueFd memory_file(unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd file(::memfd_create("backing", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(file.get(), 3 * kPage), 0);
  return file;
}

void expect_refused(const UniqueFd& file, const std::string& words) {
  ASSERT_TRUE(file.valid());
  EXPECT_FALSE(is_answering_file(file.get()));
  const auto facts = check_file(file.get());
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, EOPNOTSUPP);
  EXPECT_NE(facts.error().message.find(words), std::string::npos) << facts.error().message;
}

TEST(BackingFile, MemoryFilesAreAccepted) {
  for (const unsigned flags : {0U, unsigned{MFD_ALLOW_SEALING}}) {
    const UniqueFd file = memory_file(flags);
    EXPECT_TRUE(is_answering_file(file.get()));
    const auto facts = check_file(file.get());
    ASSERT_TRUE(facts) << facts.error().message;
    EXPECT_EQ(facts->size, 3 * kPage);
    EXPECT_EQ(facts->page_size, kPage);
    EXPECT_EQ(facts->uid, ::geteuid());
    EXPECT_FALSE(facts->durable);
  }
}

TEST(BackingFile, TwoFilesAreToldApart) {
  const UniqueFd one = memory_file(), other = memory_file();
  const UniqueFd again(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(check_file(one.get())->inode, check_file(again.get())->inode);
  EXPECT_NE(check_file(one.get())->inode, check_file(other.get())->inode);
}

// A record may name a descriptor in each of its 65,536 pieces. What a second check would find is
// different here, so there is none.
TEST(BackingFile, ADescriptorOfARecordIsCheckedOnce) {
  const UniqueFd one = memory_file(), other = memory_file();
  CheckedFiles files;
  ASSERT_TRUE(files.check(one.get()));
  EXPECT_FALSE(files.check(-1));
  ASSERT_EQ(::ftruncate(one.get(), kPage), 0);
  ASSERT_EQ(::ftruncate(other.get(), kPage), 0);
  EXPECT_EQ(files.check(one.get())->size, 3 * kPage);
  EXPECT_EQ(files.check(other.get())->size, kPage);
  EXPECT_EQ(files.check(-1).error().code, EOPNOTSUPP);
  EXPECT_EQ(files.count(), 3U);
}

// FUSE files are tested in tests/hostile, test_waits.
TEST(BackingFile, PipesSocketsDevicesAndFoldersAreRefused) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reads(ends[0]), writes(ends[1]);
  expect_refused(reads, "to a device");
  expect_refused(UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "to a device");
  expect_refused(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)), "to a device");
  expect_refused(UniqueFd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), "to a device");
  EXPECT_FALSE(is_answering_file(UniqueFd(::eventfd(0, EFD_CLOEXEC)).get()));
  EXPECT_FALSE(is_answering_file(UniqueFd(::epoll_create1(EPOLL_CLOEXEC)).get()));
  EXPECT_FALSE(is_answering_file(-1));
  EXPECT_FALSE(check_file(-1));
}

TEST(BackingFile, AnUnlistedFileSystemIsRefused) {
  expect_refused(UniqueFd(::open("/proc/self/status", O_RDONLY | O_CLOEXEC)), "might wait for");
}

bool is_memory(std::string lines) {
  std::FILE* const file = ::fmemopen(lines.data(), lines.size(), "r");
  EXPECT_NE(file, nullptr);
  const bool memory = is_memory_exporter(file);
  std::fclose(file);
  return memory;
}

// fdinfo as printed by the kernel; the text after `name:` is chosen by the program.
TEST(BackingFile, ABuffersNameDoesNotDecideItsKind) {
  const std::string first = "pos:\t0\nflags:\t02\nsize:\t4096\ncount:\t2\n";
  EXPECT_TRUE(is_memory(first + "exp_name:\tudmabuf\n"));
  EXPECT_TRUE(is_memory(first + "exp_name:\tsystem\nname:\tany\n"));
  EXPECT_FALSE(is_memory(first + "exp_name:\ti915\n"));
  EXPECT_FALSE(is_memory(first + "exp_name:\ti915\nname:\tx\nexp_name:\tsystem\n"));
  EXPECT_FALSE(is_memory(first + "exp_name:\tsystem-uncached\n"));
  EXPECT_FALSE(is_memory(first));
}

TEST(BackingFile, AnArenaIsSealedAgainstShrinking) {
  const UniqueFd file = memory_file();
  const auto unsealed = check_arena(file.get(), kPage);
  ASSERT_FALSE(unsealed);
  EXPECT_EQ(unsealed.error().code, EINVAL);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  EXPECT_FALSE(check_arena(file.get(), kPage)) << "it has another seal";
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const auto sealed = check_arena(file.get(), kPage);
  ASSERT_TRUE(sealed) << sealed.error().message;
  EXPECT_EQ(sealed->size, 3 * kPage);
  const auto pages = check_arena(file.get(), 512 * kPage);
  ASSERT_FALSE(pages);
  EXPECT_NE(pages.error().message.find("4096 bytes, not 2097152"), std::string::npos)
      << pages.error().message;
  EXPECT_FALSE(check_arena(UniqueFd(::eventfd(0, EFD_CLOEXEC)).get(), kPage));
}

// The kernel's links in map_files may be used only by those that may inspect the process; here it
// is the daemon itself.
TEST(BackingFile, AMapFilesLinkOpensTheMappedFile) {
  const UniqueFd file = memory_file();
  void* const mapped =
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  abi::MemoryPiece piece{.address = reinterpret_cast<std::uintptr_t>(mapped),
                         .length = kPage,
                         .offset = 0,
                         .map_start = reinterpret_cast<std::uintptr_t>(mapped),
                         .map_end = reinterpret_cast<std::uintptr_t>(mapped) + 3 * kPage,
                         .kind = abi::PieceKind::kMapFiles,
                         .source = 0};
  const ProgramProcess own(::getpid(), ::getuid(), ::getgid());
  const auto [opened, facts] = open_map_file(own, piece, true);
  if (opened.valid() && ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) {
    EXPECT_FALSE(open_map_file(own, piece, true).descriptor.valid())
        << "nobody can map it for writing";
    EXPECT_TRUE(open_map_file(own, piece, false).descriptor.valid());
  }
  piece.map_end += kPage;
  EXPECT_FALSE(open_map_file(own, piece, true).descriptor.valid()) << "no mapping ends there";
  ::munmap(mapped, 3 * kPage);
  if (!opened.valid()) {
    GTEST_SKIP() << "this process may not open its /proc/self/map_files";
  }
  EXPECT_EQ(check_file(opened.get())->inode, check_file(file.get())->inode);
  EXPECT_EQ(facts.inode, check_file(file.get())->inode);
}

}  // namespace
}  // namespace uroce::test
