// Interposes libc's functions that open files and list directories; for paths of the card it opens
// those of the served tree instead.

#include <dirent.h>
#include <fcntl.h>

#include <cstdarg>
#include <cstdio>

#include "verbs_shim/interposer/next_call.h"
#include "verbs_shim/interposer/shown_path.h"

namespace uroce::interposer {
namespace {

// The third argument of open() exists only if a file may be created.
mode_t mode_of(int flags, std::va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return makes ? va_arg(arguments, mode_t) : 0;
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);

}  // namespace

extern "C" {

#define UROCE_OPEN(function, name)                                          \
  UROCE_NEXT_CALL(next_##function, name, int(const char*, int, mode_t))     \
  int function(const char* path, int flags, ...) UROCE_STANDS_BEFORE(name); \
  int function(const char* path, int flags, ...) {                          \
    std::va_list arguments;                                                 \
    va_start(arguments, flags);                                             \
    const mode_t mode = mode_of(flags, arguments);                          \
    va_end(arguments);                                                      \
    return next_##function(ShownPath(path).path(), flags, mode);            \
  }
UROCE_OPEN(shown_open, "open")
UROCE_OPEN(shown_open64, "open64")

#define UROCE_OPENAT(function, name)                                                    \
  UROCE_NEXT_CALL(next_##function, name, int(int, const char*, int, mode_t))            \
  int function(int folder, const char* path, int flags, ...) UROCE_STANDS_BEFORE(name); \
  int function(int folder, const char* path, int flags, ...) {                          \
    std::va_list arguments;                                                             \
    va_start(arguments, flags);                                                         \
    const mode_t mode = mode_of(flags, arguments);                                      \
    va_end(arguments);                                                                  \
    return next_##function(folder, ShownPath(path, folder).path(), flags, mode);        \
  }
UROCE_OPENAT(shown_openat, "openat")
UROCE_OPENAT(shown_openat64, "openat64")

// Called by programs that are built with _FORTIFY_SOURCE.
#define UROCE_OPEN_2(function, name)                                   \
  UROCE_NEXT_CALL(next_##function, name, int(const char*, int))        \
  int function(const char* path, int flags) UROCE_STANDS_BEFORE(name); \
  int function(const char* path, int flags) {                          \
    return next_##function(ShownPath(path).path(), flags);             \
  }
UROCE_OPEN_2(shown_open_2, "__open_2")
UROCE_OPEN_2(shown_open64_2, "__open64_2")

#define UROCE_OPENAT_2(function, name)                                             \
  UROCE_NEXT_CALL(next_##function, name, int(int, const char*, int))               \
  int function(int folder, const char* path, int flags) UROCE_STANDS_BEFORE(name); \
  int function(int folder, const char* path, int flags) {                          \
    return next_##function(folder, ShownPath(path, folder).path(), flags);         \
  }
UROCE_OPENAT_2(shown_openat_2, "__openat_2")
UROCE_OPENAT_2(shown_openat64_2, "__openat64_2")

#define UROCE_FOPEN(function, name)                                                  \
  UROCE_NEXT_CALL(next_##function, name, std::FILE*(const char*, const char*))       \
  std::FILE* function(const char* path, const char* mode) UROCE_STANDS_BEFORE(name); \
  std::FILE* function(const char* path, const char* mode) {                          \
    return next_##function(ShownPath(path).path(), mode);                            \
  }
UROCE_FOPEN(shown_fopen, "fopen")
UROCE_FOPEN(shown_fopen64, "fopen64")

UROCE_NEXT_CALL(next_shown_opendir, "opendir", DIR*(const char*))
DIR* shown_opendir(const char* path) UROCE_STANDS_BEFORE("opendir");
DIR* shown_opendir(const char* path) { return next_shown_opendir(ShownPath(path).path()); }

#define UROCE_SCANDIR(function, name)                                                \
  UROCE_NEXT_CALL(next_##function, name, int(const char*, dirent***, Filter, Order)) \
  int function(const char* path, dirent*** names, Filter filter, Order order)        \
      UROCE_STANDS_BEFORE(name);                                                     \
  int function(const char* path, dirent*** names, Filter filter, Order order) {      \
    return next_##function(ShownPath(path).path(), names, filter, order);            \
  }
UROCE_SCANDIR(shown_scandir, "scandir")
UROCE_SCANDIR(shown_scandir64, "scandir64")

}  // extern "C"

}  // namespace uroce::interposer
