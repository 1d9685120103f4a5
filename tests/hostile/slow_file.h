#pragma once

// A file of a file system that this program serves (FUSE): requests are answered, except those that
// the attack wants to hang. Any user can mount one in namespaces of his own; there the kernel
// sends no requests on behalf of processes outside of these, root's daemon included. Outside of
// them he can mount one by fusermount, which is set-uid root.

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/unique_fd.h"

namespace uroce::hostile {

class SlowFile {
 public:
  // Makes the namespaces and mounts; a process of its own answers, which ends with this one:
  // pending requests then fail. `silent`: operations of linux/fuse.h that get
  // no answer. REQUIRES: the process has no threads yet.
  explicit SlowFile(std::set<std::uint32_t> silent);
  // As fusermount would; this process becomes the user's. REQUIRES: it is root's.
  SlowFile(std::set<std::uint32_t> silent, uid_t user);

  UniqueFd open() const;
  // A page of the file: an access to it blocks, if FUSE_READ is silent.
  void* map() const;

 private:
  void mount(const std::string& options);
  void start_serving();
  [[noreturn]] void serve() const;
  void answer(std::uint32_t operation, std::uint64_t unique) const;

  std::set<std::uint32_t> silent_;
  UniqueFd device_;  // the other process's
};

}  // namespace uroce::hostile
