#pragma once

// How the daemon starts its threads. That the system has none to give is a sentence, no exception:
// containers and services are bounded (pids.max), and so are users and their memory.

#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/result.h"

namespace uroce {

// `body` runs on it. `who`: whose it is, for the sentence.
template <typename Body>
Result<std::thread> start_thread(const std::string& who, Body body) {
  int code = ENOMEM;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    code = failure.code().value();
  } catch (const std::bad_alloc&) {
  }
  return Error{code, "there is no thread for " + who + " (" +
                         std::generic_category().message(code) +
                         "): raise the limit of processes (ulimit -u, pids.max of the cgroup) or "
                         "of memory (ulimit -v, ulimit -d)"};
}

}  // namespace uroce
