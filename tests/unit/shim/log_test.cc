// What the shim prints on stderr, and how often.

#include "verbs_shim/socket/log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace uroce::shim
