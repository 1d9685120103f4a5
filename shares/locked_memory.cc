#include "shares/locked_memory.h"

#include <linux/capability.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>

#include "base/page.h"

namespace uroce {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// A file of the process's folder in /proc, each line of it. Everybody may read these two: the
// daemon needs no right for it.
template <typename Visit>
void read_lines(pid_t pid, const char* name, Visit&& visit) {
  const File file(std::fopen(("/proc/" + std::to_string(pid) + "/" + name).c_str(), "re"),
                  &std::fclose);
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof(line), file.get()) != nullptr) {
    visit(line);
  }
}

// REQUIRES of the caller: to look afterwards whether the process has ended.
std::uint64_t limit_of(pid_t pid) {
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  read_lines(pid, "limits", [&](const char* line) {
    std::uint64_t bytes = 0;
    if (std::sscanf(line, "Max locked memory %" SCNu64, &bytes) == 1) {
      limit = bytes;
    }
  });
  return limit;
}

// In a user namespace that it made itself a program has every capability. Where the daemon may not
// look which one it is in, root's is taken for the daemon's own.
bool may_lock_anything(pid_t pid) {
  std::uint64_t capabilities = 0;
  unsigned uid = 1;
  read_lines(pid, "status", [&](const char* line) {
    (void)std::sscanf(line, "CapEff: %" SCNx64, &capabilities);
    (void)std::sscanf(line, "Uid: %*u %u", &uid);
  });
  if ((capabilities >> CAP_IPC_LOCK & 1U) == 0) {
    return false;
  }
  struct stat own = {}, its = {};
  if (::stat(("/proc/" + std::to_string(pid) + "/ns/user").c_str(), &its) != 0) {
    return uid == 0;
  }
  return ::stat("/proc/self/ns/user", &own) == 0 && own.st_ino == its.st_ino;
}

}  // namespace

struct LockedCharge::Program {
  ProgramProcess process;
  std::uint64_t bytes = 0;
  std::uint64_t allowed = 0;  // when it was last asked for
};

LockedCharge::~LockedCharge() {
  if (program_ != nullptr) {
    program_->bytes -= bytes_;
  }
}

std::shared_ptr<LockedCharge::Program> LockedMemory::program_of(const ProgramProcess& process) {
  std::erase_if(programs_, [](const auto& entry) { return entry.second.expired(); });
  auto program = programs_[process.pid()].lock();
  if (program == nullptr || program->process.has_ended()) {
    program = std::make_shared<LockedCharge::Program>(LockedCharge::Program{.process = process});
    programs_[process.pid()] = program;
  }
  return program;
}

Result<LockedCharge> LockedMemory::charge(const ProgramProcess& process, std::uint64_t address,
                                          std::uint64_t length, const LockedCharge* replaced) {
  const std::uint64_t wanted = bytes_of_pages(address, length);
  const auto program = program_of(process);
  const bool takes_place = replaced != nullptr && replaced->program_ == program;
  const std::uint64_t before = program->bytes - (takes_place ? replaced->bytes_ : 0);
  if (before + wanted > program->allowed) {
    const std::uint64_t limit = limit_of(process.pid());
    const bool beyond = before + wanted > limit;
    const bool exempt = beyond && may_lock_anything(process.pid());
    if (process.has_ended()) {
      return Error{EPERM, "process " + std::to_string(process.pid()) +
                              ", which connected, has ended, and with it the limit "
                              "(RLIMIT_MEMLOCK) for what is registered over its connection"};
    }
    program->allowed = exempt ? std::numeric_limits<std::uint64_t>::max() : limit;
    if (beyond && !exempt) {
      return Error{ENOMEM, "RLIMIT_MEMLOCK allows the program " + std::to_string(limit / 1024) +
                               " KiB of registered memory, " + std::to_string(before / 1024) +
                               " KiB are registered and " + std::to_string(wanted / 1024) +
                               " KiB more were asked for: raise it (ulimit -l, in KiB)"};
    }
  }
  program->bytes += wanted;
  LockedCharge charge;
  charge.program_ = program;
  charge.bytes_ = wanted;
  return Result<LockedCharge>(std::move(charge));
}

std::uint64_t LockedMemory::used(pid_t pid) const {
  const auto found = programs_.find(pid);
  const auto program = found == programs_.end() ? nullptr : found->second.lock();
  return program == nullptr ? 0 : program->bytes;
}

}  // namespace uroce
