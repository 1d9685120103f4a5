#include "control/start/daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace uroce::control {
namespace {

// The daemon writes to descriptors whose only other end is held by a program or a peer's driver.
TEST(Daemon, OutlivesAProgramThatClosesItsChannel) {
  sigset_t before;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &before), 0);
  Daemon::block_signals();
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "event", 5), -1);  // a default SIGPIPE would end the test here
  EXPECT_EQ(errno, EPIPE);
  ::close(ends[1]);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace uroce::control
