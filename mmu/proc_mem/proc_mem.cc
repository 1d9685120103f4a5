#include "mmu/proc_mem/proc_mem.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "mmu/proc_mem/program_rights.h"

namespace uroce {
namespace {

const char* remedy(const ProgramProcess& program) {
  return program.uid() == ::geteuid() ? "it has capabilities (CapPrm) or a group that the daemon "
                                        "hasn't, a file that its user can't read, or asked for it "
                                        "(PR_SET_DUMPABLE)"
                                      : "run both as one user, or the daemon as root";
}

}  // namespace

Result<UniqueFd> open_proc_mem(const ProgramProcess& program) {
  const std::string number = std::to_string(program.pid());
  UniqueFd memory(::open(("/proc/" + number + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  if (!memory.valid()) {
    const std::string why = std::generic_category().message(errno);
    return Error{EPERM, "the daemon may not reach the memory of process " + number + " (" + why +
                            "): " + remedy(program)};
  }
  // After the open: had the program become another before, this would show that one's rights.
  if (Status rights = check_rights(program); !rights) {
    return rights.error();
  }
  if (Status same = program.check(); !same) {
    return same.error();
  }
  return memory;
}

std::size_t read_some(int memory, std::uint64_t address, void* destination, std::size_t length) {
  const ssize_t done = ::pread(memory, destination, length, static_cast<off_t>(address));
  return done > 0 ? static_cast<std::size_t>(done) : 0;
}

bool read_program(int memory, std::uint64_t address, void* destination, std::size_t length) {
  return read_some(memory, address, destination, length) == length;
}

bool write_program(int memory, std::uint64_t address, const void* source, std::size_t length) {
  const ssize_t done = ::pwrite(memory, source, length, static_cast<off_t>(address));
  return done >= 0 && static_cast<std::size_t>(done) == length;
}

}  // namespace uroce
