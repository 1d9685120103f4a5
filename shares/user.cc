#include "shares/user.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <string>

#include "base/unique_fd.h"

namespace uroce {
namespace {

constexpr int kNestedMax = 33;  // Linux nests user namespaces 32 deep

std::uint64_t inode_of(int descriptor) {
  struct stat facts = {};
  return ::fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
}

std::uint64_t own_namespace() {
  struct stat facts = {};
  return ::stat("/proc/self/ns/user", &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

User user_in(int user_namespace, uid_t uid) {
  const std::uint64_t own = own_namespace();
  UniqueFd at;  // once it isn't the one that was given
  for (int depth = 0; depth < kNestedMax; ++depth) {
    const int here = at.valid() ? at.get() : user_namespace;
    const std::uint64_t inode = inode_of(here);
    uid_t owner = 0;
    if (inode == 0 || inode == own || ::ioctl(here, NS_GET_OWNER_UID, &owner) != 0) {
      break;
    }
    if (owner == 0) {
      return {.uid = uid, .user_namespace = inode};
    }
    uid = owner;
    UniqueFd parent(::ioctl(here, NS_GET_PARENT));
    if (!parent.valid()) {
      break;
    }
    at = std::move(parent);
  }
  return {.uid = uid};
}

User user_of(const ProgramProcess& process) {
  const std::string path = "/proc/" + std::to_string(process.pid()) + "/ns/user";
  const UniqueFd found(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return process.has_ended() ? User{.uid = process.uid()} : user_in(found.get(), process.uid());
}

}  // namespace uroce
