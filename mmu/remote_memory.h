#pragma once

// The slow way to a program's pages: /proc/PID/mem, for what can't be mapped.
//
// Why not process_vm_readv, which takes a pid: the program can end and its pid be given to another,
// or it can become another (execve of a set-uid program) while a relative keeps the session's
// socket open, and the daemon, which may be root, would write into a stranger. The file stays with
// the memory that it was opened for. It also fails, where process_vm_* would stop the worker, on
// pages that wait for a userfaultfd of the program's own.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// Opens the memory of the program `pid` if it (still) runs as `uid`. EPERM, with a sentence, where
// the kernel refuses.
Result<UniqueFd> open_remote_memory(int pid, std::uint32_t uid);

// false unless all of it was read or written.
[[nodiscard]] bool read_program(int memory, std::uint64_t address, void* destination,
                                std::size_t length);
[[nodiscard]] bool write_program(int memory, std::uint64_t address, const void* source,
                                 std::size_t length);

}  // namespace uroce
