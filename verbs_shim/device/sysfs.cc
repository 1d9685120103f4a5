// The few sysfs files that programs read by way of libibverbs. Our devices have no directory in
// sysfs, so their files are answered from what the daemon said.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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
    --length;  // the line's end, or the room for the NUL
  }
  buffer[length] = '\0';
  return static_cast<int>(length);
}

}  // namespace
}  // namespace uroce::shim

extern "C" {

const char* ibv_get_sysfs_path(void) {
  // Open MPI's openib wants <this>/class/infiniband to exist. The daemon keeps such a directory
  // beside its socket for machines without RDMA of their own.
  static char beside_socket[IBV_SYSFS_PATH_MAX];
  struct stat status {};
  if (stat("/sys/class/infiniband", &status) == 0) {
    return "/sys";
  }
  const char* socket = uroce::shim::Client::socket_path();
  const char* slash = std::strrchr(socket, '/');
  const int folder = slash != nullptr ? static_cast<int>(slash - socket) : 0;
  char wanted[IBV_SYSFS_PATH_MAX + 32];
  std::snprintf(beside_socket, sizeof(beside_socket), "%.*s/sysfs", folder, socket);
  std::snprintf(wanted, sizeof(wanted), "%s/class/infiniband", beside_socket);
  return stat(wanted, &status) == 0 ? beside_socket : "/sys";
}

int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, size_t size) {
  const int length = uroce::shim::read_own_file(directory, file, buffer, size);
  return length >= 0 ? length : uroce::shim::read_file(directory, file, buffer, size);
}
}
