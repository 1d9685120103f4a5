#pragma once

// Access to a program's pages through /proc/PID/mem, for memory that can't be mapped.
//
// Why not process_vm_readv(), which takes a pid: the program can exit and its pid be reused, or it
// can exec a set-uid program while a child keeps the session's socket open, and the daemon, which
// may be root, would write into another process. The file stays bound to the memory for which it
// was opened. It also fails, where process_vm_* would block the worker, on pages that wait for a
// userfaultfd of the program's own.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/program_process.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace uroce {

// Opens the memory of the program if it is still the process that connected and has no more rights
// than its user (program_rights.h). EPERM with a sentence, also if the kernel refuses.
Result<UniqueFd> open_proc_mem(const ProgramProcess& program);

// Returns how many bytes could be read, from the first on.
[[nodiscard]] std::size_t read_some(int memory, std::uint64_t address, void* destination,
                                    std::size_t length);
// False unless everything was read or written.
[[nodiscard]] bool read_program(int memory, std::uint64_t address, void* destination,
                                std::size_t length);
[[nodiscard]] bool write_program(int memory, std::uint64_t address, const void* source,
                                 std::size_t length);

}  // namespace uroce
