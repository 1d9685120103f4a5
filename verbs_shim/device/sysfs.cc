// The few sysfs files that programs read through libibverbs. Our devices have no sysfs directory,
// so the contents are generated from the daemon's attributes.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/tree_variable.h"
#include "verbs_shim/objects/objects.h"

namespace uroce::shim {
namespace {

constexpr const char* kClassPath = "/sys/class/infiniband/";

int copy_line(const char* line, char* buffer, std::size_t size) {
  if (size == 0) {
    return -1;
  }
  const int length = std::snprintf(buffer, size, "%s", line);
  return length < static_cast<int>(size) ? length : static_cast<int>(size) - 1;
}

// The file of one of our devices; -1 if it isn't one.
int read_own_file(const char* directory, const char* file, char* buffer, std::size_t size) {
  if (std::strncmp(directory, kClassPath, std::strlen(kClassPath)) != 0) {
    return -1;
  }
  if (std::strcmp(file, "board_id") == 0 || std::strcmp(file, "hca_type") == 0) {
    return copy_line("uroce", buffer, size);
  }
  if (std::strcmp(file, "node_type") == 0) {
    return copy_line("1: CA", buffer, size);
  }
  return -1;
}

int read_file(const char* directory, const char* file, char* buffer, std::size_t size) {
  char path[IBV_SYSFS_PATH_MAX];
  if (std::snprintf(path, sizeof(path), "%s/%s", directory, file) >=
      static_cast<int>(sizeof(path))) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return -1;
  }
  ssize_t length = read(descriptor, buffer, size);
  close(descriptor);
  if (length <= 0) {
    return -1;
  }
  if (buffer[length - 1] == '\n' || static_cast<std::size_t>(length) == size) {
    --length;  // the newline, or space for the NUL
  }
  buffer[length] = '\0';
  return static_cast<int>(length);
}

}  // namespace
}  // namespace uroce::shim

extern "C" {

// Open MPI's openib requires that <this>/class/infiniband exists. Under `uroce run` it does; a
// program without the library that shows the tree in /sys (verbs_shim/interposer) gets the path of
// the tree itself.
const char* ibv_get_sysfs_path(void) {
  static char in_tree[IBV_SYSFS_PATH_MAX];
  struct stat status {};
  const char* tree = std::getenv(uroce::kTreeVariable);  // NOLINT(concurrency-mt-unsafe)
  if (tree == nullptr || stat("/sys/class/infiniband", &status) == 0) {
    return "/sys";
  }
  const int length = std::snprintf(in_tree, sizeof(in_tree), "%s/sys", tree);
  return length < static_cast<int>(sizeof(in_tree)) ? in_tree : "/sys";
}

int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) {
  const int length = uroce::shim::read_own_file(directory, file, buffer, size);
  return length >= 0 ? length : uroce::shim::read_file(directory, file, buffer, size);
}
}
