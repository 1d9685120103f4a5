#pragma once

// Which paths are the card's, and where the served tree has them. A program that names anything
// else pays for a search through the path's text.

#include <fcntl.h>
#include <limits.h>

namespace uroce::outside {

// The served tree's folder (UROCE_TREE); nullptr: there is none that this program may look into.
const char* tree_folder();

// A path as libc is to take it: the program's own, or the served one.
class ShownPath {
 public:
  // `folder`: what a relative path starts from, as openat() has it.
  explicit ShownPath(const char* path, int folder = AT_FDCWD);
  ShownPath(const ShownPath&) = delete;
  ShownPath& operator=(const ShownPath&) = delete;

  [[nodiscard]] const char* path() const { return path_; }

 private:
  bool serve(const char* path, int folder);

  const char* path_;
  char served_[PATH_MAX];
};

// Takes the served tree's folder off the front of a path: what it shows lies in /sys and /dev.
void hide_tree(char* path);

}  // namespace uroce::outside
