#include "base/sockets/daemon_peer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sockets/record_socket.h"
#include "base/sockets/socket_path.h"
#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

constexpr uid_t kStranger = 4'711;

TEST(DaemonPeer, RootAndOneselfMayServe) {
  EXPECT_TRUE(may_serve(0, 1'000, "/tmp/x.sock"));
  EXPECT_TRUE(may_serve(1'000, 1'000, "/tmp/x.sock"));
  EXPECT_FALSE(may_serve(kStranger, 1'000, "/tmp/x.sock"));
  EXPECT_FALSE(may_serve(1'000, 0, "/tmp/x.sock")) << "root accepts only a daemon of root";
}

TEST(DaemonPeer, StrangerDoesntServeWhereTheFolderIsntHis) {
  EXPECT_FALSE(may_serve(kStranger, 1'000, kSocketDefault));
}

// The kernel records the credentials of the listening socket at listen().
class Listening : public testing::Test {
 public:
  explicit Listening() {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto address = address_of(path);
    EXPECT_EQ(
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
  }
  void listen_as(uid_t user) {
    const pid_t child = ::fork();
    if (child == 0) {
      const bool done =
          (user == ::getuid() || ::setuid(user) == 0) && ::listen(listener_.get(), 1) == 0;
      ::_exit(done ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }

  test::TemporaryFolder folder;
  const std::string path = folder / "x.sock";

 private:
  UniqueFd listener_;
};

TEST_F(Listening, OwnDaemonIsTaken) {
  listen_as(::getuid());
  EXPECT_TRUE(connect_to_daemon(path));
}

TEST_F(Listening, StrangersDaemonIsNamedAndRefused) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "only root can become another user";
  }
  listen_as(kStranger);
  const auto refused = connect_to_daemon(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_NE(refused.error().message.find("user 4711"), std::string::npos)
      << refused.error().message;
  EXPECT_NE(refused.error().message.find(path), std::string::npos) << refused.error().message;
}

TEST(ConnectToDaemon, WhereNobodyListensSaysHowToStartOne) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "none.sock";
  const auto refused = connect_to_daemon(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOENT);
  EXPECT_EQ(refused.error().message,
            "no daemon listens on " + path +
                ": start it (systemctl start uroced), or start programs by `uroce run`, which "
                "starts a private one where none is");
}

}  // namespace
}  // namespace uroce
