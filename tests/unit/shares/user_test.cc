#include "shares/user.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace uroce {
namespace {

// A process of a user, in a user namespace that the user created.
class Elsewhere {
 public:
  explicit Elsewhere(uid_t uid) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid = ::fork();
    if (pid == 0) {
      const bool made =
          (uid == ::getuid() || ::setresuid(uid, uid, uid) == 0) && ::unshare(CLONE_NEWUSER) == 0;
      const char letter = made ? 'y' : 'n';
      (void)!::write(ends[1], &letter, 1);
      ::pause();
      ::_exit(0);
    }
    char letter = 'n';
    EXPECT_EQ(::read(ends[0], &letter, 1), 1);
    exists = letter == 'y';
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~Elsewhere() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

  pid_t pid = -1;
  bool exists = false;
};

TEST(User, OfTheDaemonsNamespaceIsItsUid) {
  EXPECT_EQ(user_of({::getpid(), ::getuid(), 0}), (User{.uid = ::getuid()}));
  EXPECT_EQ(user_of({::getpid(), 4711, 0}), (User{.uid = 4711}));
}

TEST(User, ThatCantBeExaminedIsItsUid) {
  EXPECT_EQ(user_of({-1, 4711, 0}), (User{.uid = 4711}));
  EXPECT_EQ(user_in(-1, 4711), (User{.uid = 4711}));
}

// Otherwise one user would count as several, one for each namespace created and each subordinate
// id.
TEST(User, OfAnOrdinaryUsersNamespaceIsItsOwner) {
  const uid_t owner = ::getuid() == 0 ? 4711 : ::getuid();
  const Elsewhere process(owner);
  if (!process.exists) {
    GTEST_SKIP() << "no user namespaces here";
  }
  EXPECT_EQ(user_of({process.pid, owner, 0}), (User{.uid = owner}));
  EXPECT_EQ(user_of({process.pid, 100'000, 0}), (User{.uid = owner})) << "a subordinate id";
}

// By then another process may have its id.
TEST(User, OfAProcessThatHasEndedIsItsUid) {
  const Elsewhere process(::getuid());
  if (!process.exists) {
    GTEST_SKIP() << "no user namespaces here";
  }
  const ProgramProcess connected(process.pid, 100'000, 0);
  EXPECT_NE(user_of(connected), (User{.uid = 100'000}));
  ::kill(process.pid, SIGKILL);
  siginfo_t facts{};
  ::waitid(P_PID, static_cast<id_t>(process.pid), &facts, WEXITED | WNOWAIT);
  EXPECT_EQ(user_of(connected), (User{.uid = 100'000}));
}

TEST(User, OfRootsNamespacesAreDistinct) {
  if (::getuid() != 0) {
    GTEST_SKIP() << "only root can create a namespace of root's";
  }
  const Elsewhere one(0), two(0);
  if (!one.exists || !two.exists) {
    GTEST_SKIP() << "no user namespaces here";
  }
  const User first = user_of({one.pid, 100'000, 0}), second = user_of({two.pid, 100'000, 0});
  EXPECT_EQ(first.uid, 100'000U);
  EXPECT_NE(first.user_namespace, 0U);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace uroce
