#pragma once

// Direct system calls that change mappings, bypassing libc's functions, which lead to our own hooks
// (memory_calls.h) once memory was registered.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace uroce::shim::kernel {

inline void* pointer(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the program's, not of an object
  return reinterpret_cast<void*>(address);
}

inline std::uint64_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

inline void* mmap(void* address, std::size_t length, int protection, int flags, int descriptor,
                  std::uint64_t offset) {
  return pointer(static_cast<std::uint64_t>(
      ::syscall(SYS_mmap, address, length, protection, flags, descriptor, offset)));
}

inline int munmap(void* address, std::size_t length) {
  return static_cast<int>(::syscall(SYS_munmap, address, length));
}

inline int mprotect(void* address, std::size_t length, int protection) {
  return static_cast<int>(::syscall(SYS_mprotect, address, length, protection));
}

inline int madvise(void* address, std::size_t length, int advice) {
  return static_cast<int>(::syscall(SYS_madvise, address, length, advice));
}

inline void* mremap(void* address, std::size_t old_length, std::size_t new_length, int flags,
                    void* wanted) {
  return pointer(static_cast<std::uint64_t>(
      ::syscall(SYS_mremap, address, old_length, new_length, flags, wanted)));
}

}  // namespace uroce::shim::kernel
