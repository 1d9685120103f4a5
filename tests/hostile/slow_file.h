#pragma once

// A file of a file system that is this program (FUSE): what is asked of it is answered, save for
// what the attack wants to hang. Any user can have one in namespaces of his own; there the kernel
// asks nothing on behalf of whoever isn't a user of these, root's daemon included. Outside of them
// he can have one by fusermount, a program of root's.

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/unique_fd.h"

namespace uroce::hostile {

class SlowFile {
 public:
  // Makes the namespaces and mounts; a process of its own answers, which ends with this one:
  // whoever waits for an answer then gets an error. `silent`: operations of linux/fuse.h that get
  // no answer. REQUIRES: the process has no threads yet.
  explicit SlowFile(std::set<std::uint32_t> silent);
  // As fusermount would; this process is the user's from then on. REQUIRES: it is root's.
  SlowFile(std::set<std::uint32_t> silent, uid_t user);

  UniqueFd open() const;
  // A page of the file: whoever touches it waits, if FUSE_READ is silent.
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
