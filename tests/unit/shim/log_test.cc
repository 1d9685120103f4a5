// What the shim prints on stderr, and how often.

#include "verbs_shim/socket/log.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace uroce::shim {
namespace {

// A program that runs out of descriptors first and of memory later is told of both.
TEST(Log, EachErrorIsReportedOnce) {
  ::unsetenv("UROCE_QUIET");  // NOLINT(concurrency-mt-unsafe): nobody else runs yet
  testing::internal::CaptureStderr();
  print_once(EDOM, "%s%s", "one", "");
  print_once(EXDEV, "%s%s", "two", "");
  print_once(EDOM, "%s%s", "three", "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: one\nuroce: two\n");
}

// Programs that print at the same time don't get into each other's lines. Each packet is one write.
TEST(Log, ALineIsWrittenAtOnce) {
  ::unsetenv("UROCE_QUIET");  // NOLINT(concurrency-mt-unsafe): nobody else runs yet
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
  const int before = ::dup(STDERR_FILENO);
  ::dup2(pair[1], STDERR_FILENO);
  print_once(EL2HLT, "%s: %s", "ibv_reg_mr", "why not");
  ::dup2(before, STDERR_FILENO);
  char line[64];
  const ssize_t length = ::recv(pair[0], line, sizeof(line), MSG_DONTWAIT);
  EXPECT_EQ(std::string(line, length < 0 ? 0 : static_cast<std::size_t>(length)),
            "uroce: ibv_reg_mr: why not\n");
  for (const int one : {before, pair[0], pair[1]}) {
    ::close(one);
  }
}

}  // namespace
}  // namespace uroce::shim
