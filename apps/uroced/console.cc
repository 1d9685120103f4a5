#include "apps/uroced/console.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "abi/command_records.h"
#include "base/sockets/socket_path.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

// Beside this program as built, or where it was installed; empty: nowhere.
fs::path find_console() {
  std::error_code failure;
  const fs::path here = fs::read_symlink("/proc/self/exe", failure).parent_path();
  for (const fs::path& place :
       {here / "console/uroce-console", here / ".." / UROCE_LIBEXECDIR / "uroce/uroce-console"}) {
    if (fs::exists(place, failure)) {
      return place;
    }
  }
  return {};
}

// The daemon blocks signals that the console, an ordinary program, wants.
int spawn(const fs::path& program, const std::string& socket, pid_t* child) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string name = program.string();
  char* const arguments[] = {name.data(), nullptr};
  std::string variable = std::string(kSocketVariable).append("=").append(socket);
  std::vector<char*> variables = {variable.data()};  // the first of a name counts
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.push_back(*entry);
  }
  variables.push_back(nullptr);
  const int code =
      posix_spawn(child, name.c_str(), nullptr, &attributes, arguments, variables.data());
  posix_spawnattr_destroy(&attributes);
  return code;
}

}  // namespace

Status start_console(const std::string& socket) {
  const fs::path program = find_console();
  if (program.empty()) {
    return Error{ENOENT, "--console: uroce-console isn't where this program expects it"};
  }
  pid_t child = -1;
  if (const int code = spawn(program, socket, &child); code != 0) {
    return Error{code, "--console: can't start " + program.string() + ": " +
                           std::generic_category().message(code)};
  }
  std::thread([child] {
    ::waitpid(child, nullptr, 0);
    ::kill(::getpid(), SIGTERM);
  }).detach();
  return ok();
}

}  // namespace uroce
