#include "base/sockets/daemon_peer.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>
#include <utility>

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

// Of the process's own files, and of all files of the machine.
TEST(ConnectToDaemon, WhereNoDescriptorIsLeftSaysWhichLimit) {
  for (const auto& [error, says] : {std::pair(EMFILE, "RLIMIT_NOFILE"), {ENFILE, "fs.file-max"}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      sock_filter refuse[] = {
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      };
      const sock_fprog program{.len = std::size(refuse), .filter = refuse};
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
      const auto refused = connect_to_daemon("/tmp/none.sock");
      const bool well = !refused && refused.error().code == error &&
                        refused.error().message.find(says) != std::string::npos;
      ::_exit(well ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << says;
  }
}

}  // namespace
}  // namespace uroce
