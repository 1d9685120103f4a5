// The daemon. Reads flags, starts everything (control/start/daemon.h), serves until it is told to
// stop.

#include <fcntl.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <string>

#include "apps/uroced/console.h"
#include "apps/uroced/log.h"
#include "base/page_size.h"
#include "control/start/clean_environment.h"
#include "control/start/daemon.h"
#include "control/start/notify.h"
#include "control/start/options.h"

namespace {

int fail(const uroce::Error& error) {
  uroce::print_start_error(error);
  return 1;
}

// What is wrong in flags or file, and what it hasn't the rights for, is so at the next start, too:
// the unit has RestartPreventExitStatus= for this status.
int refuse(const uroce::Error& error) {
  uroce::print_start_error(error);
  return EX_CONFIG;
}

// What only another configuration, a capability or a package changes: a system call was forbidden,
// or DPDK lacks the port's driver.
bool lasts(const uroce::Error& error) {
  constexpr int kLasting[] = {EPERM, EACCES, ENOPKG};
  return std::find(std::begin(kLasting), std::end(kLasting), error.code) != std::end(kLasting);
}

// The user may be found later, or the file be read.
bool may_pass(const uroce::Error& error) {
  constexpr int kPassing[] = {uroce::control::kUserUnknown, EIO, ESTALE, EMFILE, ENFILE, ENOMEM};
  return std::find(std::begin(kPassing), std::end(kPassing), error.code) != std::end(kPassing);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace uroce::control;
  restart_without_shim(argv);
  uroce::begin_lines();
  const auto line = parse_command_line(argc, argv);
  if (!line) {
    return may_pass(line.error()) ? fail(line.error()) : refuse(line.error());
  }
  if (!line->text.empty()) {
    std::fputs(line->text.c_str(), stdout);
    return 0;
  }
  if (const auto pages = uroce::check_page_size(); !pages) {
    return refuse({pages.error().code, pages.error().message.c_str()});
  }
  const int ready = line->options.ready_descriptor;
  if (ready >= 0 && ::fcntl(ready, F_GETFD) < 0) {  // the waiter would wait for ever
    return refuse({EINVAL, "--ready-fd: there is no open descriptor " + std::to_string(ready)});
  }
  uroce::start_log(line->options.log_level);

  Daemon::block_signals();
  auto daemon = Daemon::start(line->options);
  if (!daemon) {
    return lasts(daemon.error()) ? refuse(daemon.error()) : fail(daemon.error());
  }
  if (line->options.console) {
    if (const auto started = uroce::start_console(line->options.socket); !started) {
      return fail(started.error());
    }
  }
  if (const auto locked = (*daemon)->lock_down(); !locked) {
    return fail(locked.error());
  }
  notify_ready(line->options.ready_descriptor);
  (*daemon)->run();
  return 0;
}
