#pragma once

// What stands in for libc's functions that change mappings, once memory has been converted: they
// keep the promises that private memory gives, and tell the daemon first where it pages on demand.
// As the originals, errno included. Where nothing was converted, nor paged on demand, each is a few
// loads and the call.
//
// docs/odp.md says how they come to be called: libc's own are patched.

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

// What each of them calls in turn: the kernel, or the hook that another library had put there
// before us, which counts on being called. Set before the function is hooked, under the mutex.
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

// Whether libc's madvise, which is passed, still comes to ours.
bool is_reached_by(int (*madvise)(void*, std::size_t, int));

}  // namespace uroce::shim::calls
