#include "dataplane/port/ethdev/runtime_folders.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

// The PID of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return child;
}

class RuntimeFolders : public testing::Test {
 public:
  fs::path make(const std::string& name) {
    const fs::path path = parent_ / name;
    fs::create_directory(path);
    std::ofstream(path / "fbarray_memzone") << "x";
    return path;
  }
  void clean() { remove_dead_folders(parent_, "uroce"); }
  test::TemporaryFolder folder_;
  fs::path parent_ = folder_.path();
};

TEST_F(RuntimeFolders, FoldersOfDeadDaemonsAreRemoved) {
  const fs::path dead = make("uroce-" + std::to_string(dead_process()));
  clean();
  EXPECT_FALSE(fs::exists(dead));
}

TEST_F(RuntimeFolders, FoldersOfLivingProcessesAndOthersStay) {
  const fs::path own = make("uroce-" + std::to_string(::getpid()));
  const std::string dead = std::to_string(dead_process());
  const fs::path others[] = {make("rte"), make("testpmd-" + dead), make("uroce-" + dead + "x"),
                             make("uroce-"), make("uroce")};
  clean();
  EXPECT_TRUE(fs::exists(own));
  for (const fs::path& other : others) {
    EXPECT_TRUE(fs::exists(other)) << other;
  }
}

// The owner may be in another container, where its PID means nothing here.
TEST_F(RuntimeFolders, LockedFoldersStay) {
  const fs::path folder = make("uroce-" + std::to_string(dead_process()));
  {
    const UniqueFd lock = lock_folder(folder);
    ASSERT_TRUE(lock.valid());
    clean();
    EXPECT_TRUE(fs::exists(folder));
  }
  clean();
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(RuntimeFolders, LinksAreNotFollowed) {
  const fs::path elsewhere = make("elsewhere");
  fs::create_directory_symlink(elsewhere, parent_ / ("uroce-" + std::to_string(dead_process())));
  clean();
  EXPECT_TRUE(fs::exists(elsewhere / "fbarray_memzone"));
}

TEST_F(RuntimeFolders, NothingIsRemovedWhereOthersMayWrite) {
  const fs::path dead = make("uroce-" + std::to_string(dead_process()));
  fs::permissions(parent_, fs::perms::all);
  clean();
  EXPECT_TRUE(fs::exists(dead));
}

}  // namespace
}  // namespace uroce
