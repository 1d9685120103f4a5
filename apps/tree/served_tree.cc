#include "apps/tree/served_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/system_error.h"
#include "base/unique_fd.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kReadable = 0444;
constexpr mode_t kServedFolderMode = 0777;  // less the umask
// What the daemon's folders begin with, so that a program finds them also without a card.
constexpr const char* kFolders[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
                                    "/dev/infiniband"};

bool is_there(const fs::path& path) {
  struct stat facts = {};
  return ::lstat(path.c_str(), &facts) == 0;
}

Status write_whole(const std::string& path, const std::string& text) {
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadable));
  if (!file.valid() ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error(("can't write " + path).c_str());
  }
  return ok();
}

// If other users may write there, their links could redirect our writes.
Status expect_own(const std::string& folder) {
  struct stat facts = {};
  if (::lstat(folder.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) &&
      facts.st_uid == ::geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
    return ok();
  }
  return Error{EPERM, folder + " must be a folder of your own in which nobody else may write"};
}

// What isn't wanted any more goes.
template <typename Shown>
void remove_others(const std::string& folder, const Shown& wanted, Shown* shown) {
  for (auto one = shown->begin(); one != shown->end();) {
    if (wanted.contains(one->first)) {
      ++one;
    } else {
      ::unlink((folder + one->first).c_str());
      one = shown->erase(one);
    }
  }
}

// Folders in which there may be others' besides the cards': those of kFolders, those above them,
// and those of network interfaces.
bool is_shared(const fs::path& folder) {
  const fs::path above = folder.parent_path();
  const fs::path root = folder.root_path();
  return above == root || above.parent_path() == root || above == "/sys/class" ||
         above == "/sys/class/net";
}

// Removes the folders on the way to the file or link at `path`, as far as they are empty and only
// for cards.
void remove_folders_of_cards(const std::string& folder, const fs::path& path) {
  for (fs::path up = path.parent_path(); up.has_relative_path() && !is_shared(up);
       up = up.parent_path()) {
    if (::rmdir((folder + up.string()).c_str()) != 0) {
      break;
    }
  }
}

}  // namespace

Result<ServedTree> ServedTree::make(const std::string& folder) {
  ServedTree tree(folder);
  Status made = tree.make_folders(folder);
  if (made) {
    made = expect_own(folder);
  }
  for (const char* below : kFolders) {
    if (made) {
      made = tree.make_folders(folder + below);
    }
  }
  if (!made) {
    tree.remove();
    return made.error();
  }
  return tree;
}

// Makes each folder on the way that isn't there, from above, and notes those that it made.
Status ServedTree::make_folders(const fs::path& path) {
  std::vector<std::string> missing;
  for (fs::path up = path; !up.empty() && !is_there(up); up = up.parent_path()) {
    missing.push_back(up.string());
  }
  for (auto folder = missing.rbegin(); folder != missing.rend(); ++folder) {
    if (::mkdir(folder->c_str(), kServedFolderMode) == 0) {
      made_.push_back(*folder);
    } else if (errno != EEXIST) {
      return system_error(("can't make the folder " + *folder).c_str());
    }
  }
  struct stat facts = {};
  const bool exists = ::stat(path.c_str(), &facts) == 0;
  if (exists && S_ISDIR(facts.st_mode)) {
    return ok();
  }
  if (exists) {
    errno = ENOTDIR;
  }
  return system_error(("can't make the folder " + path.string()).c_str());
}

// The new text is put in place by rename(2), which is atomic.
Status ServedTree::write_file(const std::string& path, const std::string& text) {
  const std::string place = folder_ + path;
  const std::string draft = folder_ + "/draft";
  if (Status made = make_folders(fs::path(place).parent_path()); !made) {
    return made;
  }
  ::unlink(draft.c_str());
  if (Status written = write_whole(draft, text); !written) {
    ::unlink(draft.c_str());
    return written;
  }
  return ::rename(draft.c_str(), place.c_str()) == 0
             ? ok()
             : Status(system_error(("can't write " + place).c_str()));
}

Status ServedTree::write_link(const std::string& path, const std::string& target) {
  const std::string place = folder_ + path;
  if (Status made = make_folders(fs::path(place).parent_path()); !made) {
    return made;
  }
  ::unlink(place.c_str());
  return ::symlink(target.c_str(), place.c_str()) == 0
             ? ok()
             : Status(system_error(("can't make the link " + place).c_str()));
}

Status ServedTree::update(const TreeContents& wanted) {
  remove_others(folder_, wanted.files, &shown_.files);
  remove_others(folder_, wanted.links, &shown_.links);
  for (const auto& [path, text] : wanted.files) {
    const auto old = shown_.files.find(path);
    if (old != shown_.files.end() && old->second == text) {
      continue;
    }
    if (Status written = write_file(path, text); !written) {
      return written;
    }
    shown_.files[path] = text;
  }
  for (const auto& [path, target] : wanted.links) {
    const auto old = shown_.links.find(path);
    if (old != shown_.links.end() && old->second == target) {
      continue;
    }
    if (Status written = write_link(path, target); !written) {
      return written;
    }
    shown_.links[path] = target;
  }
  return ok();
}

// Shared folders may have been there before: of them only those go that it made. Below them only a
// tree makes folders, perhaps one that was killed.
void ServedTree::remove() {
  const auto forget = [this](const auto& paths) {
    for (const auto& [path, content] : paths) {
      ::unlink((folder_ + path).c_str());
      remove_folders_of_cards(folder_, path);
    }
  };
  forget(shown_.files);
  forget(shown_.links);
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) {
    ::rmdir(folder->c_str());
  }
  shown_ = {};
  made_.clear();
}

}  // namespace uroce
