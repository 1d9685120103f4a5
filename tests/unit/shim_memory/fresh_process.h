#pragma once

// For tests of what a process does only once, each in a process of its own: libc stays patched.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace uroce::test {

// In such a process: true. Otherwise runs the calling test in one, expects it to pass, and returns
// false.
inline bool is_fresh_process() {
  constexpr const char* kFresh = "UROCE_TEST_FRESH";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread of a test changes the environment
  if (std::getenv(kFresh) != nullptr) {
    return true;
  }
  const auto* const info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kFresh, "1", 1);    // NOLINT(concurrency-mt-unsafe): the child has one thread
    ::unsetenv("GTEST_OUTPUT");  // NOLINT(concurrency-mt-unsafe): the parent writes the report
    ::execl("/proc/self/exe", "shim_memory_test", filter.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "its output is above";
  return false;
}

}  // namespace uroce::test
