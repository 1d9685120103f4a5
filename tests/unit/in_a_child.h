#pragma once

// What must not happen in the test's own process.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace uroce::test {

// Runs it in a child process and returns what it returned, 0 to 255. `ended`: what a call of
// std::terminate counts as; running out of memory in a worker's task ends the daemon
// (Runner::run_while_asleep).
template <typename Run>
int in_a_child(int ended, Run&& run) {
  static int status_when_ended;
  const pid_t child = ::fork();
  if (child == 0) {
    status_when_ended = ended;
    std::set_terminate([] { ::_exit(status_when_ended); });
    ::_exit(static_cast<int>(std::forward<Run>(run)()));
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace uroce::test
