// A shared object with librdmacm's name that calls open and fstat by all their names.

#include <fcntl.h>
#include <sys/stat.h>

// These are hidden from programs that are built today. Their version is the architecture's first,
// and the kind of struct stat is the one that it began with.
#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
constexpr int kStatVersion = 1;
#else
#define FIRST_VERSION "GLIBC_2.17"
constexpr int kStatVersion = 0;
#endif
__asm__(".symver old_fstat, __fxstat@" FIRST_VERSION);
__asm__(".symver old_fstat64, __fxstat64@" FIRST_VERSION);

extern "C" {

int old_fstat(int version, int descriptor, struct stat* status);
int old_fstat64(int version, int descriptor, struct stat* status);
int __open_2(const char* path, int flags);    // NOLINT(bugprone-reserved-identifier): glibc's
int __open64_2(const char* path, int flags);  // NOLINT(bugprone-reserved-identifier): glibc's

int open_by_name(int name, const char* path) {
  switch (name) {
    case 0:
      return open(path, O_RDWR | O_CLOEXEC);
    case 1:
      return open64(path, O_RDWR | O_CLOEXEC);
    case 2:
      return __open_2(path, O_RDWR | O_CLOEXEC);
    default:
      return __open64_2(path, O_RDWR | O_CLOEXEC);
  }
}

int stat_by_name(int name, int descriptor, struct stat* status) {
  switch (name) {
    case 0:
      return fstat(descriptor, status);
    case 1:
      return fstat64(descriptor, reinterpret_cast<struct stat64*>(status));
    case 2:
      return old_fstat(kStatVersion, descriptor, status);
    default:
      return old_fstat64(kStatVersion, descriptor, status);
  }
}
}
