#pragma once

// Standard output that couldn't be written, for instance to a full disk, makes a command fail: its
// exit status must not say that everything has been printed.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace uroce {

struct CheckedOutput {
  const char* name = nullptr;
  int status = 1;  // when the output is incomplete
};

inline CheckedOutput checked_output;

// Call it once, in main(). A reader that has gone (EPIPE) isn't an error: it has what it wanted.
inline void check_output_at_exit(const char* name, int status = 1) {
  checked_output = {name, status};
  std::atexit([] {
    const bool failed = std::ferror(stdout) != 0;
    errno = 0;
    if ((std::fflush(stdout) == 0 && !failed) || errno == EPIPE) {
      return;
    }
    const char* const reason = errno == 0 ? "an earlier write failed" : std::strerror(errno);
    std::fprintf(stderr, "%s: standard output can't be written: %s\n", checked_output.name, reason);
    ::_exit(checked_output.status);
  });
}

}  // namespace uroce
