// What happens when a process may open no more files, or the daemon talks nonsense.

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/shim/verbs_fixture.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::test {
namespace {

// No new descriptor as long as it lives.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = dup(0);
    close(lowest_free);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(lowest_free), .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

class OpenFiles : public VerbsFixture {};

TEST_F(OpenFiles, TheDaemonGetsBackWhatCameWithoutItsDescriptor) {
  {
    const NoMoreFiles none;
    EXPECT_EQ(ibv_create_cq(context, 4, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(daemon.last_command(), abi::Command::kDestroyCq);
    EXPECT_EQ(daemon.last_handle(), FakeDaemon::kCqHandle);
    EXPECT_EQ(ibv_create_comp_channel(context), nullptr);
    EXPECT_EQ(errno, EMFILE);
    EXPECT_EQ(daemon.last_command(), abi::Command::kDestroyChannel);
  }
  ibv_cq* later = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ASSERT_NE(later, nullptr) << "the connection is as good as before";
  EXPECT_EQ(ibv_destroy_cq(later), 0);
}

TEST_F(OpenFiles, NonsenseEndsTheConnectionForBoth) {
  daemon.answer_out_of_order();
  ibv_device_attr attributes{};
  EXPECT_EQ(ibv_query_device(context, &attributes), ENODEV);
  char byte = 0;
  EXPECT_EQ(recv(shim::of(context)->client.descriptor(), &byte, 1, MSG_DONTWAIT), 0)
      << "the daemon isn't told";
}

}  // namespace
}  // namespace uroce::test
