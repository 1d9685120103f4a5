#pragma once

// A folder that holds what /sys and /dev show of the daemon's cards. Who reads a file gets the old
// or the new text, never half of one; files that say the same as before aren't touched.

#include <filesystem>
#include <string>
#include <vector>

#include "apps/tree/card_files.h"
#include "base/result.h"

namespace uroce {

class ServedTree {
 public:
  // Makes the folder, or takes over what a tree before left in it. It may be bind-mounted
  // elsewhere: nothing below it is replaced but files and links.
  static Result<ServedTree> make(const std::string& folder);

  // Makes the folder's content that of `wanted`. An error leaves the rest to the next call.
  Status update(const TreeContents& wanted);
  // What it made goes, folders if nothing else is in them; folders of cards also if a tree before
  // left them.
  void remove();

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  explicit ServedTree(std::string folder) : folder_(std::move(folder)) {}
  Status make_folders(const std::filesystem::path& path);
  Status write_file(const std::string& path, const std::string& text);
  Status write_link(const std::string& path, const std::string& target);

  std::string folder_;
  TreeContents shown_;
  std::vector<std::string> made_;  // folders, those above others first
};

}  // namespace uroce
