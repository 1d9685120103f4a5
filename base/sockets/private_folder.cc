#include "base/sockets/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/environment.h"
#include "base/system_error.h"

namespace uroce {
namespace {

constexpr mode_t kPrivate = 0700;
constexpr mode_t kOthers = 0077;

bool is_private(const struct stat& facts) {
  return S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & kOthers) == 0;
}

// It can be another user's, after su, or no folder at all.
bool is_private(const std::string& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) == 0 && is_private(facts);
}

}  // namespace

std::string private_folder() {
  const auto runtime = environment("XDG_RUNTIME_DIR");
  return runtime && is_private(*runtime) ? *runtime : "/tmp/uroce-" + std::to_string(::geteuid());
}

// What is there is looked at whether it was made now or before: in /tmp anybody may have been
// first, but nobody can replace what is ours.
Status make_private_folder_at(const std::string& path) {
  if (::mkdir(path.c_str(), kPrivate) != 0 && errno != EEXIST) {
    return system_error(("can't make the folder " + path).c_str());
  }
  struct stat facts = {};
  if (::lstat(path.c_str(), &facts) != 0) {
    return system_error(("can't look at the folder " + path).c_str());
  }
  if (!is_private(facts)) {
    return Error{EPERM, path + " must be a folder of user " + std::to_string(::geteuid()) +
                            " with mode 0700, and isn't (user " + std::to_string(facts.st_uid) +
                            " has it): have it removed, or let XDG_RUNTIME_DIR name such a folder"};
  }
  return ok();
}

Result<std::string> make_private_folder() {
  std::string path = private_folder();
  if (Status made = make_private_folder_at(path); !made) {
    return made.error();
  }
  return path;
}

}  // namespace uroce
