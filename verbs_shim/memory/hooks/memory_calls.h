#pragma once

// Replacements for libc's functions that change mappings, once memory has been converted: they
// preserve the semantics of private memory, and notify the daemon first if the range is paged on
// demand. Results and errno are those of the originals. For ranges neither converted nor paged on
// demand, each adds a few loads to the call.
//
// They are called because libc's own functions are patched (docs/odp.md).

#include <sys/types.h>

#include <cstddef>

namespace uroce::shim::calls {

void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
           off_t offset);
int munmap(void* address, std::size_t length);
void* mremap(void* address, std::size_t old_length, std::size_t new_length, int flags,
             void* wanted);
int madvise(void* address, std::size_t length, int advice);
int mprotect(void* address, std::size_t length, int protection);
int shmdt(const void* address);

int brk(void* address);

// What each of them calls in turn: the kernel, or the hook of another library that was installed
// before ours and expects to be called. Set before the function is hooked, under the mutex.
struct Next {
  void* (*mmap)(void*, std::size_t, int, int, int, off_t);
  int (*munmap)(void*, std::size_t);
  void* (*mremap)(void*, std::size_t, std::size_t, int, ...);
  int (*madvise)(void*, std::size_t, int);
  int (*mprotect)(void*, std::size_t, int);
  int (*shmdt)(const void*);
  int (*brk)(void*);
};
extern Next next;

// Whether `madvise`, libc's function, still calls ours.
bool is_reached_by(int (*madvise)(void*, std::size_t, int));

}  // namespace uroce::shim::calls
