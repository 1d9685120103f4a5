#pragma once

// Maintains a tree of the daemon's cards (served_tree.h), and answers programs' RDMA netlink
// queries about them at the socket `netlink` in its folder. A process of its own, so that the
// daemon's threads needn't write files.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/run_folder.h"
#include "apps/tree/card_view.h"
#include "apps/tree/netlink_server.h"
#include "apps/tree/served_tree.h"
#include "base/result.h"

namespace uroce {

class TreeKeeper {
 public:
  // Asks the daemon, and writes the tree for the first time. The error says what is wrong.
  static Result<TreeKeeper> make(const std::string& socket, const std::string& folder);

  // Until `end` is readable. Files are a second old at most, unless the daemon takes longer than a
  // twentieth of that to report: it is asked at most a twentieth of the time. Answers by netlink
  // are as new as the question.
  void keep(int end);
  [[nodiscard]] int netlink_descriptor() const { return netlink_.descriptor(); }
  // When it isn't needed any more.
  void remove();

 private:
  TreeKeeper(std::string socket, ServedTree tree, NetlinkServer netlink)
      : socket_(std::move(socket)), tree_(std::move(tree)), netlink_(std::move(netlink)) {}
  Status refresh();
  [[nodiscard]] std::vector<std::string> answer(std::string_view question) const;

  std::string socket_;
  ServedTree tree_;
  NetlinkServer netlink_;
  std::vector<CardView> last_;
};

// A tree in `folder`, kept by a process that ends with this one, whatever this one becomes; a
// folder that isn't the user's private one goes with it, when it is empty. The keeper holds the
// descriptor `lock` open for as long. Trees there whose keepers were killed are removed, unless
// somebody else has their lock.
Result<RunFolder> start_tree(const std::string& socket, const std::string& folder, int lock = -1);

// The same as the keeper would do when this process has ended. With the first process of a
// container the kernel ends all others, the keeper among them; so they are ended before, as far as
// this one may. REQUIRES: this is the first process; `folder` is what start_tree() was given.
void end_tree_with_container(RunFolder tree, const std::string& folder);

// `uroce tree FOLDER`: until SIGINT or SIGTERM. The exit code.
int keep_tree(const std::string& folder);

}  // namespace uroce
