#include "verbs_shim/socket/log.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "verbs_shim/socket/cancellation_disabled.h"

namespace uroce::shim {
namespace {

constexpr unsigned kLineMax = 1024;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): as any library does
  return value != nullptr && value[0] != '\0' && std::strcmp(value, "0") != 0;
}

// In one write: other processes print to the same file.
void say_once(std::atomic<bool>& said, const char* format, const char* first, const char* second) {
  if (!is_set("UROCE_QUIET") && !said.exchange(true, std::memory_order_relaxed)) {
    const CancellationDisabled whole;
    char line[kLineMax];
    std::snprintf(line, sizeof(line), format, first, second);  // NOLINT: formats are literals
    std::fprintf(stderr, "uroce: %s\n", line);
  }
}

// Errors that the program's user can fix: limits and privileges. Programs only report that a call
// failed. Other errors are for the programmer.
bool is_for_the_user(int error) {
  return error == ENOMEM || error == EMFILE || error == ENFILE || error == EPERM ||
         error == ENOBUFS || error == ETOOMANYREFS;
}

}  // namespace

bool debugging() {
  static const bool debug = is_set("UROCE_DEBUG");
  return debug;
}

void explain(const char* call, int error, const char* sentence) {
  if (debugging()) {
    std::fprintf(stderr, "uroce: %s: %s (%s)\n", call, sentence, strerrorname_np(error));
  } else if (is_for_the_user(error)) {
    print_once(error, "%s: %s", call, sentence);
  }
}

int refuse(const char* call, int error, const char* sentence) {
  explain(call, error, sentence);
  errno = error;
  return error;
}

void print_once(int error, const char* format, const char* first, const char* second) {
  constexpr unsigned kErrorsMax = 256;  // Linux has fewer; a hostile daemon may send any number
  static std::atomic<bool> said[kErrorsMax];
  say_once(said[static_cast<unsigned>(error) % kErrorsMax], format, first, second);
}

void print_loss(const char* sentence) {
  static std::atomic<bool> said{false};
  say_once(said, "%s%s", sentence, "");
}

}  // namespace uroce::shim
