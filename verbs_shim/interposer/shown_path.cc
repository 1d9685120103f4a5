#include "verbs_shim/interposer/shown_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/tree_variable.h"
#include "verbs_shim/interposer/next_call.h"

namespace uroce::interposer {
namespace {

// Every path of ours contains one of these, and few others do.
constexpr const char* kMarks[] = {"infiniband", "pci7572:00"};
constexpr const char* kPrefixes[] = {"/sys/class/infiniband", "/sys/devices/pci7572:00",
                                     "/dev/infiniband"};
constexpr const char* kInterfaces = "/sys/class/net/";
constexpr const char* kOfInterface = "/device/infiniband";

UROCE_NEXT_CALL(next_readlink, "readlink", ssize_t(const char*, char*, std::size_t))
UROCE_NEXT_CALL(next_faccessat, "faccessat", int(int, const char*, int, int))

char folder_name[PATH_MAX];
std::size_t folder_length = 0;

// Read at start: programs change their environment, and a child may have lost access.
__attribute__((constructor)) void find_tree() {
  const char* name = std::getenv(kTreeVariable);  // NOLINT(concurrency-mt-unsafe): one thread yet
  if (name == nullptr || name[0] != '/' || std::strlen(name) >= sizeof(folder_name) ||
      next_faccessat(AT_FDCWD, name, X_OK, AT_EACCESS) != 0) {
    return;
  }
  folder_length = std::strlen(name);
  std::memcpy(folder_name, name, folder_length + 1);
}

bool begins(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

bool has_mark(const char* path) {
  for (const char* mark : kMarks) {
    if (std::strstr(path, mark) != nullptr) {
      return true;
    }
  }
  return false;
}

// `path` is absolute.
bool is_ours(const char* path) {
  for (const char* prefix : kPrefixes) {
    if (begins(path, prefix)) {
      return true;
    }
  }
  const char* slash =
      begins(path, kInterfaces) ? std::strchr(path + std::strlen(kInterfaces), '/') : nullptr;
  return slash != nullptr && begins(slash, kOfInterface);
}

// The directory that relative paths start from. False: unknown.
bool starting_folder(int folder, char (&name)[PATH_MAX]) {
  if (folder == AT_FDCWD) {
    return getcwd(name, sizeof(name)) != nullptr;
  }
  char link[32];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
  const ssize_t length = next_readlink(link, name, sizeof(name) - 1);
  name[length < 0 ? 0 : length] = '\0';
  return length > 0;
}

// Appends `path` without "//" and "/./". False: no room.
bool append_plainly(const char* path, char* to, std::size_t room) {
  std::size_t length = 0;
  for (const char* at = path; *at != '\0'; ++at) {
    if (length + 1 >= room) {
      return false;
    }
    to[length++] = *at;
    while (*at == '/' && (at[1] == '/' || (at[1] == '.' && (at[2] == '/' || at[2] == '\0')))) {
      at += at[1] == '/' ? 1 : 2;
      if (*at != '/') {
        --at;  // it ends with "/."
        break;
      }
    }
  }
  to[length] = '\0';
  return true;
}

}  // namespace

const char* tree_folder() { return folder_length != 0 ? folder_name : nullptr; }

ShownPath::ShownPath(const char* path, int folder) : path_(path) {
  if (folder_length == 0 || path == nullptr || !has_mark(path)) {
    return;
  }
  const int before = errno;
  if (serve(path, folder)) {
    path_ = served_;
  }
  errno = before;
}

bool ShownPath::serve(const char* path, int folder) {
  char absolute[PATH_MAX];
  if (path[0] != '/') {
    char start[PATH_MAX];
    if (!starting_folder(folder, start) ||
        std::snprintf(absolute, sizeof(absolute), "%s/%s", start, path) >=
            static_cast<int>(sizeof(absolute))) {
      return false;
    }
    path = absolute;
  }
  std::memcpy(served_, folder_name, folder_length);
  char* shown = served_ + folder_length;
  // The program may have changed its user since, and the keeper may have ended.
  return append_plainly(path, shown, sizeof(served_) - folder_length) && is_ours(shown) &&
         next_faccessat(AT_FDCWD, folder_name, X_OK, AT_EACCESS) == 0;
}

void hide_tree(char* path) {
  if (folder_length != 0 && std::strncmp(path, folder_name, folder_length) == 0 &&
      path[folder_length] == '/') {
    std::memmove(path, path + folder_length, std::strlen(path + folder_length) + 1);
  }
}

}  // namespace uroce::interposer
