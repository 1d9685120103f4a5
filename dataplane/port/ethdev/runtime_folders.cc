#include "dataplane/port/ethdev/runtime_folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/environment.h"
#include "base/sockets/private_folder.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr int kFoldersMax = 65'536;  // examined in one pass

bool is_our_folder(const struct stat& facts) {
  return S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() &&
         (facts.st_mode & kOthersWrite) == 0;
}

// The process in "uroce-123"; 0: the name isn't of this form.
pid_t process_of_folder(std::string_view entry, std::string_view name) {
  if (!entry.starts_with(name) || entry.size() <= name.size() + 1 || entry[name.size()] != '-') {
    return 0;
  }
  const std::string_view digits = entry.substr(name.size() + 1);
  pid_t pid = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return failure == std::errc{} && end == digits.data() + digits.size() && pid > 0 ? pid : 0;
}

bool is_gone(pid_t process) { return ::kill(process, 0) != 0 && errno == ESRCH; }

}  // namespace

Status use_private_runtime_folder() {
  if (::getuid() == 0) {
    return ok();  // it uses /var/run
  }
  const auto folder = make_private_folder();
  if (!folder) {
    return folder.error();
  }
  set_environment("XDG_RUNTIME_DIR", *folder);
  return ok();
}

std::string dpdk_folder() {
  const std::string base =
      ::getuid() == 0 ? "/var/run" : environment("XDG_RUNTIME_DIR").value_or("/tmp");
  return base + "/dpdk";
}

UniqueFd lock_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts = {};
  if (!folder.valid() || ::fstat(folder.get(), &facts) != 0 || !is_our_folder(facts) ||
      ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) {
    return UniqueFd{};
  }
  return folder;
}

// A folder can't be replaced by a link after the check, since only we may write to its parent.
void remove_dead_folders(const std::string& parent, const std::string& name) {
  struct stat facts = {};
  if (::lstat(parent.c_str(), &facts) != 0 || !is_our_folder(facts)) {
    return;
  }
  std::error_code failure;
  int looked_at = 0;
  for (fs::directory_iterator at(parent, failure), end; !failure && at != end;
       at.increment(failure)) {
    const pid_t process = process_of_folder(at->path().filename().native(), name);
    if (++looked_at > kFoldersMax) {
      return;
    }
    if (process == 0 || !is_gone(process)) {
      continue;
    }
    if (const UniqueFd lock = lock_folder(at->path().native()); lock.valid()) {
      std::error_code ignored;
      fs::remove_all(at->path(), ignored);
    }
  }
}

}  // namespace uroce
