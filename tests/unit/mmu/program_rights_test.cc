// A program connects, passes its socket on and execs one that the kernel keeps from its user: the
// daemon must not access that one.

#include "mmu/proc_mem/program_rights.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>

#include "mmu/proc_mem/proc_mem.h"
#include "tests/unit/temporary_folder.h"

namespace uroce::test {
namespace {

constexpr uid_t kNobody = 65'534;
constexpr gid_t kNogroup = 65'534, kOtherGroup = 42;

// A child that changes its rights and then waits to be killed.
class Child {
 public:
  template <typename Change>
  explicit Child(const Change& change) {
    int ways[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ways, O_CLOEXEC), 0);
    const UniqueFd read_end(ways[0]);
    UniqueFd write_end(ways[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)!::write(write_end.get(), change() ? "y" : "n", 1);
      for (;;) {
        ::pause();
      }
    }
    write_end.reset();
    char letter = 'x';  // at the end of the pipe: an exec has closed it
    (void)!::read(read_end.get(), &letter, 1);
    EXPECT_NE(letter, 'n');
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // 0, or the error code.
  [[nodiscard]] int reach() const {
    const auto memory = open_proc_mem(ProgramProcess(pid_, kNobody, kNogroup));
    return memory ? 0 : memory.error().code;
  }

 private:
  pid_t pid_ = -1;
};

bool become(uid_t saved_user = kNobody, gid_t saved_group = kNogroup) {
  return ::setresgid(kNogroup, kNogroup, saved_group) == 0 &&
         ::setresuid(kNobody, kNobody, saved_user) == 0;
}

class ProgramRights : public testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) {
      GTEST_SKIP() << "only root can become another user";
    }
  }
};

TEST_F(ProgramRights, AProgramThatHasGivenUpAllOthersIsReached) {
  EXPECT_EQ(Child([] { return become(); }).reach(), 0) << "not dumpable, as after any setuid";
  EXPECT_EQ(Child([] { return become() && ::prctl(PR_SET_DUMPABLE, 1) == 0; }).reach(), 0);
}

TEST_F(ProgramRights, AProgramWithAnotherUserOrGroupIsNot) {
  EXPECT_EQ(Child([] { return become(0); }).reach(), EPERM);
  EXPECT_EQ(Child([] { return become(kNobody, kOtherGroup); }).reach(), EPERM);
  EXPECT_EQ(Child([] { return ::setresuid(kNobody, kNobody, kNobody) == 0; }).reach(), EPERM)
      << "the group is another than when it connected";
}

// As a file's capabilities give them. Such a program may allow dumps of itself.
TEST_F(ProgramRights, AProgramWithCapabilitiesIsNot) {
  const auto become_capable = [] { return ::prctl(PR_SET_KEEPCAPS, 1) == 0 && become(); };
  EXPECT_EQ(Child(become_capable).reach(), EPERM);
  EXPECT_EQ(Child([&] { return become_capable() && ::prctl(PR_SET_DUMPABLE, 1) == 0; }).reach(),
            EPERM);
}

bool keep_capability(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2]{};
  sets[CAP_TO_INDEX(capability)].permitted = CAP_TO_MASK(capability);
  return ::prctl(PR_SET_KEEPCAPS, 1) == 0 && become() && ::syscall(SYS_capset, &header, sets) == 0;
}

// As a login at the machine's console gives it every program, and an administrator for `ulimit -l`.
TEST_F(ProgramRights, AProgramWithACapabilityThatReachesNothingIs) {
  for (const int capability : {CAP_WAKE_ALARM, CAP_IPC_LOCK}) {
    const auto change = [&] { return keep_capability(capability); };
    EXPECT_EQ(Child([&] { return change() && ::prctl(PR_SET_DUMPABLE, 1) == 0; }).reach(), 0);
    EXPECT_EQ(Child(change).reach(), EPERM) << "as if a file had given it";
  }
  EXPECT_EQ(Child([] {
              return keep_capability(CAP_NET_RAW) && ::prctl(PR_SET_DUMPABLE, 1) == 0;
            }).reach(),
            EPERM);
}

TEST_F(ProgramRights, AProgramOfAnotherGroupOrThatCantBeReadIsNotOnceExecuted) {
  const TemporaryFolder folder;
  const std::string program = folder / "program";
  std::filesystem::copy_file("/bin/sleep", program);
  struct statvfs mount {};
  ASSERT_EQ(::statvfs(program.c_str(), &mount), 0);
  if ((mount.f_flag & ST_NOSUID) != 0) {
    GTEST_SKIP() << folder.path() << " is mounted without set-gid programs (nosuid)";
  }
  const UniqueFd file(::open(program.c_str(), O_PATH | O_CLOEXEC));  // nobody may not get there
  const auto run = [&] {
    std::string name = "sleep", seconds = "600";
    char* arguments[] = {name.data(), seconds.data(), nullptr};
    return become() &&
           ::syscall(SYS_execveat, file.get(), "", arguments, environ, AT_EMPTY_PATH) == 0;
  };
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  EXPECT_EQ(Child(run).reach(), 0);
  ASSERT_EQ(::chown(program.c_str(), 0, kOtherGroup), 0);
  ASSERT_EQ(::chmod(program.c_str(), S_ISGID | 0755), 0);
  EXPECT_EQ(Child(run).reach(), EPERM);
  ASSERT_EQ(::chmod(program.c_str(), 0711), 0);
  EXPECT_EQ(Child(run).reach(), EPERM);
}

}  // namespace
}  // namespace uroce::test
