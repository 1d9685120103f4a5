#include "apps/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/system_error.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnyEnding = "XXXXXX";  // mkdtemp(3)
constexpr mode_t kOthers = 0077;
constexpr int kTriesMax = 16;

// The folder, locked; not valid: it isn't one of this user's own, or is in use. Where the file
// system has no locks, it is only made use of, and never removed.
UniqueFd lock_own_folder(const std::string& path, int how) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts = {};
  const bool own = folder.valid() && ::fstat(folder.get(), &facts) == 0 &&
                   facts.st_uid == ::geteuid() && (facts.st_mode & kOthers) == 0;
  if (!own) {
    return {};
  }
  const bool locked = ::flock(folder.get(), how | LOCK_NB) == 0;
  const bool without_lock = how == LOCK_SH && errno != EWOULDBLOCK;
  return locked || without_lock ? std::move(folder) : UniqueFd();
}

// Links in it are removed, not followed, and nobody else can change what lies in it.
void remove_left_folders(const std::string& place, std::string_view prefix) {
  std::error_code failure;
  for (fs::directory_iterator at(place, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name.size() == prefix.size() + kAnyEnding.size() && name.starts_with(prefix)) {
      const UniqueFd lock = lock_own_folder(at->path().string(), LOCK_EX);
      std::error_code kept;
      if (lock.valid()) {
        fs::remove_all(at->path(), kept);
      }
    }
  }
}

}  // namespace

// Another run may take a new folder for a left one before it is locked: then it is gone, or locked.
Result<RunFolder> make_run_folder(const std::string& place, std::string_view prefix) {
  remove_left_folders(place, prefix);
  for (int tries = 0; tries < kTriesMax; ++tries) {
    std::string path = place + "/" + std::string(prefix) + std::string(kAnyEnding);
    if (::mkdtemp(path.data()) == nullptr) {
      break;
    }
    UniqueFd lock = lock_own_folder(path, LOCK_SH);
    struct stat facts = {};
    if (lock.valid() && ::fstat(lock.get(), &facts) == 0 && facts.st_nlink != 0) {
      return RunFolder{.path = std::move(path), .lock = std::move(lock)};
    }
    ::rmdir(path.c_str());
  }
  return system_error(("can't make a folder in " + place).c_str());
}

}  // namespace uroce
