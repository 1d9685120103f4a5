#include "base/sockets/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

class PrivateFolder : public testing::Test {
 public:
  test::TemporaryFolder parent;
  std::string path = parent / "mine";
};

TEST_F(PrivateFolder, IsMadeForItsOwnerOnly) {
  ASSERT_TRUE(make_private_folder_at(path));
  struct stat facts = {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
  EXPECT_TRUE(make_private_folder_at(path)) << "it is there already";
}

TEST_F(PrivateFolder, OpenToOthersIsRefused) {
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_FALSE(make_private_folder_at(path));
}

TEST_F(PrivateFolder, LinkIsRefused) {
  const std::string elsewhere = path + "-elsewhere";
  ASSERT_EQ(::mkdir(elsewhere.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), path.c_str()), 0);
  EXPECT_FALSE(make_private_folder_at(path));
}

TEST_F(PrivateFolder, StrangersIsRefusedByName) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "only root can make another user's folder";
  }
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path.c_str(), 4'711, 4'711), 0);
  const Status refused = make_private_folder_at(path);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("user 4711 has it"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace uroce
