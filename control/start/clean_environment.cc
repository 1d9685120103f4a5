#include "control/start/clean_environment.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "abi/command_records.h"
#include "base/environment.h"
#include "base/sockets/socket_path.h"

namespace uroce::control {
namespace {

// The shim uses UROCE_SOCKET; other libibverbs don't.
bool is_shim(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  return bytes.find(kSocketVariable) != std::string::npos;
}

// Removes the entries for the shim from a list like LD_LIBRARY_PATH; true if there were any.
bool clean(const char* variable, const char* separators, const std::string& suffix) {
  const std::string list = environment(variable).value_or("");
  std::string rest;
  bool found = false;
  for (std::size_t start = 0; start <= list.size();) {
    const std::size_t end = std::min(list.find_first_of(separators, start), list.size());
    const std::string entry = list.substr(start, end - start);
    if (!entry.empty() && is_shim(entry + suffix)) {
      found = true;
    } else if (!entry.empty()) {
      rest += (rest.empty() ? "" : ":") + entry;
    }
    start = end + 1;
  }
  if (found) {
    set_environment(variable, rest);
  }
  return found;
}

}  // namespace

void restart_without_shim(char** argv) {
  const bool path = clean("LD_LIBRARY_PATH", ":;", "/libibverbs.so.1");
  const bool preload = clean("LD_PRELOAD", ": ", "");
  if (path || preload) {
    ::execv("/proc/self/exe", argv);
  }
}

void load_libibverbs_of_system() {
  Dl_info libc{};
  if (::dladdr(::dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &libc) == 0) {
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(libc.dli_fname).parent_path();
  const std::string file = folder / "libibverbs.so.1";
  if (std::ifstream(file).is_open() && !is_shim(file)) {
    (void)::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
}

}  // namespace uroce::control
