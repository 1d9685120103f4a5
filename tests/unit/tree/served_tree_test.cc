#include "apps/tree/served_tree.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

class Served : public testing::Test {
 public:
  [[nodiscard]] std::string read(const std::string& path) const {
    std::ifstream file(parent / "tree" + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  test::TemporaryFolder parent;
};

TEST_F(Served, FollowsItsContents) {
  auto tree = ServedTree::make(parent / "tree");
  ASSERT_TRUE(tree);
  TreeContents wanted{.files = {{"/sys/a/b", "1\n"}, {"/sys/a/c", "2\n"}},
                      .links = {{"/l", "sys"}}};
  ASSERT_TRUE(tree->update(wanted));
  EXPECT_EQ(read("/sys/a/b") + read("/l/a/c"), "1\n2\n");

  struct stat before = {};
  struct stat after = {};
  ASSERT_EQ(::stat((parent / "tree/sys/a/c").c_str(), &before), 0);
  wanted.files["/sys/a/b"] = "3\n";
  wanted.links.clear();
  ASSERT_TRUE(tree->update(wanted));
  EXPECT_EQ(read("/sys/a/b"), "3\n");
  EXPECT_FALSE(fs::is_symlink(parent / "tree/l"));
  ASSERT_EQ(::stat((parent / "tree/sys/a/c").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino) << "unchanged files aren't rewritten";
}

TEST_F(Served, RemovesOnlyItsOwnFiles) {
  auto tree = ServedTree::make(parent / "tree");
  ASSERT_TRUE(tree);
  ASSERT_TRUE(tree->update({.files = {{"/sys/a/b", "1\n"}}, .links = {}}));
  std::ofstream(parent / "tree/sys/mine") << "mine";
  tree->remove();
  EXPECT_EQ(read("/sys/mine"), "mine");
  EXPECT_FALSE(fs::exists(parent / "tree/sys/a"));
  fs::remove(parent / "tree/sys/mine");
}

TEST_F(Served, ReportsWhyItCannotWrite) {
  std::ofstream(parent / "tree") << "a file";
  const auto tree = ServedTree::make(parent / "tree");
  ASSERT_FALSE(tree);
  EXPECT_NE(tree.error().message.find(parent.path()), std::string::npos);
  EXPECT_NE(tree.error().message.find(": Not a directory"), std::string::npos)
      << tree.error().message;
}

// Folders above it, too, but no more than it made.
TEST_F(Served, RemovesTheFoldersOnTheWay) {
  fs::create_directories(parent / "there/dev");  // an empty mount point, for instance
  auto tree = ServedTree::make(parent / "there");
  ASSERT_TRUE(tree);
  tree->remove();
  EXPECT_TRUE(fs::exists(parent / "there/dev"));
  EXPECT_FALSE(fs::exists(parent / "there/sys"));
  tree = ServedTree::make(parent / "there/a/b");
  ASSERT_TRUE(tree);
  ASSERT_TRUE(tree->update({.files = {{"/sys/a/b", "1\n"}}, .links = {}}));
  tree->remove();
  EXPECT_FALSE(fs::exists(parent / "there/a"));
  EXPECT_TRUE(fs::exists(parent / "there"));
}

// As on a full disk: a file that can't be written leaves nothing behind either.
TEST_F(Served, RemovesWhatItCouldNotFill) {
  auto tree = ServedTree::make(parent / "tree");
  ASSERT_TRUE(tree);
  struct rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit nothing = {.rlim_cur = 0, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
  const Status written = tree->update({.files = {{"/sys/a/b", "1\n"}}, .links = {}});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(written);
  tree->remove();
  EXPECT_FALSE(fs::exists(parent / "tree"));
}

// Links that another user puts there would redirect root's writes.
TEST_F(Served, OnlyInAFolderThatOthersCannotWrite) {
  const std::string folder = parent / "tree";
  fs::create_directory(folder);
  ASSERT_EQ(::chmod(folder.c_str(), 0777), 0);
  EXPECT_EQ(ServedTree::make(folder).error().code, EPERM);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  EXPECT_TRUE(ServedTree::make(folder));
  fs::create_symlink(folder, parent / "link");
  EXPECT_EQ(ServedTree::make(parent / "link").error().code, EPERM);
}

class ServedCard : public testing::Test {
 protected:
  [[nodiscard]] bool is_there(const std::string& path) const { return fs::exists(root_ + path); }

  test::TemporaryFolder folder_;
  std::string root_ = folder_ / "tree";
  TreeContents card_{.files = {{"/sys/class/infiniband/uroce0/node_guid", "0\n"}}, .links = {}};
};

TEST_F(ServedCard, LeavesNoCardOfATreeThatWasKilled) {
  {
    auto killed = ServedTree::make(root_);
    ASSERT_TRUE(killed->update(card_));
  }
  auto tree = ServedTree::make(root_);
  ASSERT_TRUE(tree->update(card_));
  tree->remove();
  EXPECT_TRUE(fs::is_empty(root_ + "/sys/class/infiniband"));
}

// Somebody else's folders stay, and what is in them.
TEST_F(ServedCard, LeavesWhatItDidNotMake) {
  fs::create_directories(root_ + "/sys/class/infiniband/other0");
  fs::create_directories(root_ + "/sys/devices");  // a mount point
  fs::create_directories(root_ + "/sys/class/net/eth0");
  auto tree = ServedTree::make(root_);
  card_.files["/sys/devices/pci7572:00/vendor"] = "0\n";
  card_.links["/sys/class/net/eth0/device/infiniband"] = "elsewhere";
  ASSERT_TRUE(tree->update(card_));
  tree->remove();
  EXPECT_TRUE(is_there("/sys/devices"));
  EXPECT_FALSE(is_there("/sys/devices/pci7572:00"));
  EXPECT_TRUE(is_there("/sys/class/net/eth0"));
  EXPECT_FALSE(is_there("/sys/class/net/eth0/device"));
  EXPECT_TRUE(is_there("/sys/class/infiniband/other0"));
  EXPECT_FALSE(is_there("/sys/class/infiniband/uroce0"));
  EXPECT_FALSE(is_there("/dev"));
}

// A folder that can't be made now may be made by somebody else before the end.
TEST_F(ServedCard, RemovesNoFolderThatItCouldNotMake) {
  auto tree = ServedTree::make(root_);
  const std::string uroce0 = root_ + "/sys/class/infiniband/uroce0";
  fs::create_symlink("nowhere", uroce0);
  EXPECT_FALSE(tree->update(
      {.files = {{"/sys/class/infiniband/uroce0/ports/1/state", "4: ACTIVE\n"}}, .links = {}}));
  fs::remove(uroce0);
  fs::create_directories(uroce0 + "/ports");
  tree->remove();
  EXPECT_TRUE(is_there("/sys/class/infiniband/uroce0/ports"));
}

}  // namespace
}  // namespace uroce
