#include "mmu/remote_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace uroce {

Result<UniqueFd> open_remote_memory(int pid, std::uint32_t uid) {
  const std::string process = "/proc/" + std::to_string(pid);
  UniqueFd memory(::open((process + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  if (!memory.valid()) {
    return Error{EPERM, "the daemon may not reach the memory of process " + std::to_string(pid) +
                            " (" + std::generic_category().message(errno) +
                            "): run both as one user, or the daemon as root"};
  }
  // After the open: had the program become another before it, this would show the other's owner.
  struct stat owner = {};
  if (::stat(process.c_str(), &owner) != 0 || owner.st_uid != uid) {
    return Error{EPERM, "process " + std::to_string(pid) + " no longer runs as user " +
                            std::to_string(uid) + ", so its memory is left alone"};
  }
  return memory;
}

bool read_program(int memory, std::uint64_t address, void* destination, std::size_t length) {
  const ssize_t done = ::pread(memory, destination, length, static_cast<off_t>(address));
  return done >= 0 && static_cast<std::size_t>(done) == length;
}

bool write_program(int memory, std::uint64_t address, const void* source, std::size_t length) {
  const ssize_t done = ::pwrite(memory, source, length, static_cast<off_t>(address));
  return done >= 0 && static_cast<std::size_t>(done) == length;
}

}  // namespace uroce
