// Interposes libc's functions that examine files without opening them.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "verbs_shim/interposer/next_call.h"
#include "verbs_shim/interposer/shown_path.h"

namespace uroce::interposer {

extern "C" {

#define UROCE_STAT(function, name)                                               \
  UROCE_NEXT_CALL(next_##function, name, int(const char*, struct stat*))         \
  int function(const char* path, struct stat* status) UROCE_STANDS_BEFORE(name); \
  int function(const char* path, struct stat* status) {                          \
    return next_##function(ShownPath(path).path(), status);                      \
  }
UROCE_STAT(shown_stat, "stat")
UROCE_STAT(shown_stat64, "stat64")
UROCE_STAT(shown_lstat, "lstat")
UROCE_STAT(shown_lstat64, "lstat64")

// Names called by programs built against a glibc before 2.33.
#define UROCE_XSTAT(function, name)                                                           \
  UROCE_NEXT_CALL(next_##function, name, int(int, const char*, struct stat*))                 \
  int function(int version, const char* path, struct stat* status) UROCE_STANDS_BEFORE(name); \
  int function(int version, const char* path, struct stat* status) {                          \
    return next_##function(version, ShownPath(path).path(), status);                          \
  }
UROCE_XSTAT(shown_xstat, "__xstat")
UROCE_XSTAT(shown_xstat64, "__xstat64")
UROCE_XSTAT(shown_lxstat, "__lxstat")
UROCE_XSTAT(shown_lxstat64, "__lxstat64")

#define UROCE_FSTATAT(function, name)                                              \
  UROCE_NEXT_CALL(next_##function, name, int(int, const char*, struct stat*, int)) \
  int function(int folder, const char* path, struct stat* status, int flags)       \
      UROCE_STANDS_BEFORE(name);                                                   \
  int function(int folder, const char* path, struct stat* status, int flags) {     \
    return next_##function(folder, ShownPath(path, folder).path(), status, flags); \
  }
UROCE_FSTATAT(shown_fstatat, "fstatat")
UROCE_FSTATAT(shown_fstatat64, "fstatat64")

UROCE_NEXT_CALL(next_shown_statx, "statx", int(int, const char*, int, unsigned, struct statx*))
int shown_statx(int folder, const char* path, int flags, unsigned mask, struct statx* status)
    UROCE_STANDS_BEFORE("statx");
int shown_statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) {
  return next_shown_statx(folder, ShownPath(path, folder).path(), flags, mask, status);
}

#define UROCE_ACCESS(function, name)                                  \
  UROCE_NEXT_CALL(next_##function, name, int(const char*, int))       \
  int function(const char* path, int mode) UROCE_STANDS_BEFORE(name); \
  int function(const char* path, int mode) { return next_##function(ShownPath(path).path(), mode); }
UROCE_ACCESS(shown_access, "access")
UROCE_ACCESS(shown_eaccess, "eaccess")
UROCE_ACCESS(shown_euidaccess, "euidaccess")

UROCE_NEXT_CALL(next_shown_faccessat, "faccessat", int(int, const char*, int, int))
int shown_faccessat(int folder, const char* path, int mode, int flags)
    UROCE_STANDS_BEFORE("faccessat");
int shown_faccessat(int folder, const char* path, int mode, int flags) {
  return next_shown_faccessat(folder, ShownPath(path, folder).path(), mode, flags);
}

UROCE_NEXT_CALL(next_shown_readlink, "readlink", ssize_t(const char*, char*, std::size_t))
ssize_t shown_readlink(const char* path, char* target, std::size_t room)
    UROCE_STANDS_BEFORE("readlink");
ssize_t shown_readlink(const char* path, char* target, std::size_t room) {
  return next_shown_readlink(ShownPath(path).path(), target, room);
}

UROCE_NEXT_CALL(next_shown_readlinkat, "readlinkat", ssize_t(int, const char*, char*, std::size_t))
ssize_t shown_readlinkat(int folder, const char* path, char* target, std::size_t room)
    UROCE_STANDS_BEFORE("readlinkat");
ssize_t shown_readlinkat(int folder, const char* path, char* target, std::size_t room) {
  return next_shown_readlinkat(folder, ShownPath(path, folder).path(), target, room);
}

UROCE_NEXT_CALL(next_shown_readlink_chk, "__readlink_chk",
                ssize_t(const char*, char*, std::size_t, std::size_t))
ssize_t shown_readlink_chk(const char* path, char* target, std::size_t room, std::size_t there)
    UROCE_STANDS_BEFORE("__readlink_chk");
ssize_t shown_readlink_chk(const char* path, char* target, std::size_t room, std::size_t there) {
  return next_shown_readlink_chk(ShownPath(path).path(), target, room, there);
}

// The target of one of the card's links is reported as a path in /sys, as by the kernel.
UROCE_NEXT_CALL(next_shown_realpath, "realpath", char*(const char*, char*))
char* shown_realpath(const char* path, char* resolved) UROCE_STANDS_BEFORE("realpath");
char* shown_realpath(const char* path, char* resolved) {
  char* real = next_shown_realpath(ShownPath(path).path(), resolved);
  if (real != nullptr) {
    hide_tree(real);
  }
  return real;
}

UROCE_NEXT_CALL(next_shown_realpath_chk, "__realpath_chk", char*(const char*, char*, std::size_t))
char* shown_realpath_chk(const char* path, char* resolved, std::size_t there)
    UROCE_STANDS_BEFORE("__realpath_chk");
char* shown_realpath_chk(const char* path, char* resolved, std::size_t there) {
  char* real = next_shown_realpath_chk(ShownPath(path).path(), resolved, there);
  if (real != nullptr) {
    hide_tree(real);
  }
  return real;
}

char* shown_canonicalize(const char* path) UROCE_STANDS_BEFORE("canonicalize_file_name");
char* shown_canonicalize(const char* path) { return shown_realpath(path, nullptr); }

// `ls -l` asks for access lists.
#define UROCE_GETXATTR(function, name)                                                          \
  UROCE_NEXT_CALL(next_##function, name, ssize_t(const char*, const char*, void*, std::size_t)) \
  ssize_t function(const char* path, const char* attribute, void* value, std::size_t room)      \
      UROCE_STANDS_BEFORE(name);                                                                \
  ssize_t function(const char* path, const char* attribute, void* value, std::size_t room) {    \
    return next_##function(ShownPath(path).path(), attribute, value, room);                     \
  }
UROCE_GETXATTR(shown_getxattr, "getxattr")
UROCE_GETXATTR(shown_lgetxattr, "lgetxattr")

#define UROCE_LISTXATTR(function, name)                                                        \
  UROCE_NEXT_CALL(next_##function, name, ssize_t(const char*, char*, std::size_t))             \
  ssize_t function(const char* path, char* names, std::size_t room) UROCE_STANDS_BEFORE(name); \
  ssize_t function(const char* path, char* names, std::size_t room) {                          \
    return next_##function(ShownPath(path).path(), names, room);                               \
  }
UROCE_LISTXATTR(shown_listxattr, "listxattr")
UROCE_LISTXATTR(shown_llistxattr, "llistxattr")

UROCE_NEXT_CALL(next_shown_chdir, "chdir", int(const char*))
int shown_chdir(const char* path) UROCE_STANDS_BEFORE("chdir");
int shown_chdir(const char* path) { return next_shown_chdir(ShownPath(path).path()); }

}  // extern "C"

}  // namespace uroce::interposer
