#pragma once

// What stands in for libc's functions that change mappings, once memory is paged on demand: they
// tell the daemon first, and keep the promises that private memory gives for memory that has been
// converted meanwhile. As the originals, errno included. Before, each is one load, a branch and the
// system call.
//
// docs/odp.md says how they come to be called: libc's own are patched, and the shim exports them.

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

// From now on changes are announced. REQUIRES: the watch is open.
void start_announcing();
bool is_announcing();
// In a fork's child, before anything else.
void stop_announcing();

// libc's brk, to be called through `original`.
int brk(void* address, int (*original)(void*));

}  // namespace uroce::shim::calls
