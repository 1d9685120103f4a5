#include "apps/tree/card_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "apps/tree/served_tree.h"
#include "tests/unit/temporary_folder.h"
#include "tests/unit/tree/report.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPort = "/sys/devices/pci7572:00/7572:00:00.0/infiniband/uroce0/ports/1/";

TreeContents contents() { return tree_contents(card_views(report_of_one_card()).value()); }

TEST(CardFiles, HaveTheKernelsFormats) {
  const TreeContents tree = contents();
  const auto port = [&](const char* name) { return tree.files.at(std::string(kPort) + name); };
  EXPECT_EQ(port("state"), "4: ACTIVE\n");
  EXPECT_EQ(port("phys_state"), "5: LinkUp\n");
  EXPECT_EQ(port("rate"), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(port("gids/2"), "0000:0000:0000:0000:0000:ffff:0a00:0001\n");
  EXPECT_EQ(port("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(port("gid_attrs/types/2"), "RoCE v2\n");
  EXPECT_FALSE(tree.files.contains(std::string(kPort) + "gid_attrs/types/1"))
      << "the entry is empty";
  EXPECT_EQ(port("counters/port_rcv_data"), "1000\n") << "counted in words";
  EXPECT_EQ(port("hw_counters/packet_seq_err"), "7\n");
}

TEST(CardFiles, LinksPointToFilesOfTheTree) {
  const TreeContents tree = contents();
  const fs::path card = "/sys/class/infiniband/uroce0";
  const fs::path device = (card.parent_path() / tree.links.at(card)).lexically_normal();
  EXPECT_TRUE(tree.files.contains(device / "node_type"));
  const fs::path function = (device / tree.links.at(device / "device")).lexically_normal();
  EXPECT_TRUE(tree.files.contains(function / "vendor"));
}

TEST(CardViews, RefuseInvalidReports) {
  for (const char* missing : {"version", "devices"}) {
    auto report = report_of_one_card();
    report.erase(missing);
    EXPECT_FALSE(card_views(report)) << missing;
  }
  for (const char* name : {"", ".", "../x", "a/b"}) {
    auto report = report_of_one_card();
    report["devices"][0]["name"] = name;
    EXPECT_FALSE(card_views(report)) << name;
  }
  EXPECT_FALSE(card_views(nlohmann::ordered_json::parse("nonsense", nullptr, false)));
}

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

}  // namespace
}  // namespace uroce
