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

#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// Opens the memory of the program if it (still) is the process that connected, and runs as the user
// that it was then. EPERM, with a sentence, also where the kernel refuses.
Result<UniqueFd> open_proc_mem(const ProgramProcess& program);

// How much could be read, from the first byte on.
[[nodiscard]] std::size_t read_some(int memory, std::uint64_t address, void* destination,
                                    std::size_t length);
// false unless all of it was read or written.
[[nodiscard]] bool read_program(int memory, std::uint64_t address, void* destination,
                                std::size_t length);
[[nodiscard]] bool write_program(int memory, std::uint64_t address, const void* source,
                                 std::size_t length);

}  // namespace uroce
