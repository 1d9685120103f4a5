#pragma once

// Maps paths of the card to the served tree. For any other path the cost is one search through its
// text.

#include <fcntl.h>
#include <limits.h>

namespace uroce::interposer {

// The served tree's directory (UROCE_TREE); nullptr: none that this program may access.
const char* tree_folder();

// The path to pass to libc: the program's own, or the one in the served tree.
class ShownPath {
 public:
  // `folder`: the directory of relative paths, as for openat().
  explicit ShownPath(const char* path, int folder = AT_FDCWD);
  ShownPath(const ShownPath&) = delete;
  ShownPath& operator=(const ShownPath&) = delete;

  [[nodiscard]] const char* path() const { return path_; }

 private:
  bool serve(const char* path, int folder);

  const char* path_;
  char served_[PATH_MAX];
};

// Removes the served tree's directory from the front of a path, which gives the path in /sys or
// /dev.
void hide_tree(char* path);

}  // namespace uroce::interposer
