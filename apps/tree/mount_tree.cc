#include "apps/tree/mount_tree.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/system_error.h"
#include "base/unique_fd.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

// Folders of the kernel's in which nobody can make one: what lies in them is shown again, each at
// its place, in a folder of ours that has the tree's, too.
constexpr const char* kCovered[] = {"/sys/class", "/sys/devices", "/dev"};
constexpr const char* kInterfaces = "/sys/class/net/";
constexpr const char* kDevice = "device";
constexpr const char* kNotShown = "net";  // the tree's links to interfaces, which the kernel has
constexpr mode_t kFolderMode = 0755;

struct Entry {
  std::string name;
  fs::file_type type;
};

std::vector<Entry> entries_of(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    entries.push_back({entry.path().filename().string(), entry.symlink_status(failure).type()});
  }
  return entries;
}

Status write_line(const char* path, const std::string& line) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file.valid() || ::write(file.get(), line.data(), line.size()) < 0) {
    return system_error((std::string("can't write ") + path).c_str());
  }
  return ok();
}

// Root needs no user namespace, in which other users' files would belong to nobody (overflow uid).
Status leave_mounts() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNS) == 0) {
    return ok();
  }
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return system_error("this system doesn't permit user namespaces");
  }
  if (Status done = write_line("/proc/self/setgroups", "deny"); !done) {
    return done;
  }
  if (Status done = write_line("/proc/self/uid_map", user + " " + user + " 1\n"); !done) {
    return done;
  }
  return write_line("/proc/self/gid_map", group + " " + group + " 1\n");
}

Status bind(const std::string& source, const std::string& place) {
  return ::mount(source.c_str(), place.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0
             ? ok()
             : Status(system_error(("can't mount " + place).c_str()));
}

// Shows `entry` of a folder, which `source` leads to, in the covering one.
Status show(const std::string& source, const std::string& folder, const Entry& entry) {
  const std::string from = source + "/" + entry.name;
  const std::string place = folder + "/" + entry.name;
  if (entry.type == fs::file_type::symlink) {
    std::error_code failure;
    fs::create_symlink(fs::read_symlink(from, failure), place, failure);
    return ok();
  }
  if (entry.type == fs::file_type::directory) {
    ::mkdir(place.c_str(), kFolderMode);
  } else {
    const UniqueFd made(::open(place.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0));
  }
  const Status bound = bind(from, place);
  const int error = bound ? 0 : bound.error().code;
  return error == ENOENT ? ok() : bound;  // it has gone meanwhile
}

// A terminal is made by /dev/ptmx, which looks for the folder `pts` beside itself: beside a mount
// of the single file there is none, so it is shown in the whole folder of the kernel's. Where that
// can't be, programs get no new terminals.
constexpr const char* kDevices = "/dev";
constexpr const char* kTerminals = "ptmx";
constexpr const char* kWhole = ".kernel";

class WholeFolder {
 public:
  // REQUIRES: nothing covers the folder yet.
  explicit WholeFolder(std::string folder)
      : folder_(std::move(folder)),
        mounts_(::open_tree(AT_FDCWD, folder_.c_str(),
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)) {}

  void show() const {
    const std::string place = folder_ + "/" + kWhole;
    const std::string link = std::string(kWhole) + "/" + kTerminals;
    ::mkdir(place.c_str(), kFolderMode);
    if (::move_mount(mounts_.get(), "", AT_FDCWD, place.c_str(), MOVE_MOUNT_F_EMPTY_PATH) == 0) {
      std::error_code failure;
      fs::create_symlink(link, folder_ + "/" + kTerminals, failure);
    }
  }

 private:
  std::string folder_;
  UniqueFd mounts_;
};

// Shows in `folder` what is there, and over it what is in `tree`, which may be nowhere, and a link
// `device`, which may lead nowhere.
Status cover(const std::string& tree, const std::string& folder, const std::string& device) {
  const std::vector<Entry> added = entries_of(tree);
  std::vector<Entry> kept = entries_of(folder);
  const auto is_ours = [&](const Entry& entry) {
    return entry.name != kNotShown &&
           std::any_of(added.begin(), added.end(),
                       [&](const Entry& one) { return one.name == entry.name; });
  };
  std::erase_if(kept, is_ours);
  std::optional<WholeFolder> whole;
  if (folder == kDevices && std::erase_if(kept, [](const Entry& entry) {
                              return entry.name == kTerminals &&
                                     entry.type == fs::file_type::character;
                            }) != 0) {
    whole.emplace(folder);
  }
  // The way to what the covering folder hides.
  const UniqueFd hidden(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string source = "/proc/self/fd/" + std::to_string(hidden.get());
  if (::mount("uroce", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) {
    return system_error(("can't mount " + folder).c_str());
  }
  if (whole) {
    whole->show();
  }
  for (const Entry& entry : kept) {
    if (Status shown = show(source, folder, entry); !shown) {
      return shown;
    }
  }
  for (const Entry& entry : added) {
    if (entry.name != kNotShown) {
      if (Status shown = show(tree, folder, entry); !shown) {
        return shown;
      }
    }
  }
  if (!device.empty()) {
    std::error_code failure;
    fs::create_symlink(device, folder + "/" + kDevice, failure);
  }
  constexpr unsigned long kReadOnly = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
  return ::mount(nullptr, folder.c_str(), nullptr, kReadOnly, nullptr) == 0
             ? ok()
             : Status(system_error(("can't protect " + folder).c_str()));
}

// An interface of the card's has a device in which `infiniband` names it. An interface that has a
// device of the kernel's, a network card's, keeps that one.
Status cover_interfaces(const std::string& tree) {
  for (const Entry& interface : entries_of(tree + kInterfaces)) {
    const std::string place = kInterfaces + interface.name;
    std::error_code failure;
    const fs::path kernels = fs::canonical(place, failure);
    if (failure || fs::exists(kernels / kDevice, failure)) {
      continue;
    }
    const fs::path cards = fs::canonical(tree + place + "/" + kDevice + "/infiniband", failure);
    const fs::path function =
        fs::relative(cards.parent_path(), fs::canonical(tree, failure), failure);
    if (failure) {
      continue;
    }
    if (Status covered = cover("", kernels, "/" + function.string()); !covered) {
      return covered;
    }
  }
  return ok();
}

}  // namespace

Status mount_tree(const std::string& tree) {
  if (Status left = leave_mounts(); !left) {
    return left;
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return system_error("can't make the mounts of the new namespace private");
  }
  for (const char* folder : kCovered) {
    if (Status covered = cover(tree + folder, folder, ""); !covered) {
      return covered;
    }
  }
  return cover_interfaces(tree);
}

}  // namespace uroce
