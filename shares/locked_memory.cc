#include "shares/locked_memory.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "base/page.h"
#include "base/system_error.h"

namespace uroce {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// A file of the process's folder in /proc, each line of it. Everybody may read these two who may
// see the process: the daemon needs no right for it. False: it can't be opened, for the reason in
// errno.
template <typename Visit>
bool read_lines(pid_t pid, const char* name, Visit&& visit) {
  const File file(std::fopen(("/proc/" + std::to_string(pid) + "/" + name).c_str(), "re"),
                  &std::fclose);
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof(line), file.get()) != nullptr) {
    visit(line);
  }
  return file != nullptr;
}

// A limit on locked memory in bytes, and whether it is the program's own.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  bool of_program = false;
};

// What a program may have that the daemon isn't allowed to see: another user's where /proc is
// mounted with hidepid and the daemon hasn't CAP_SYS_PTRACE (the unit's has it), or one in a
// process namespace beside the daemon's own (apps/containers). No such program can show its limit,
// so to refuse them all would leave none working. No program can bring it about either: both are
// the administrator's choice, and so is what is taken instead, the limit with which the daemon was
// started.
MemoryLimit limit_of_unseen() {
  rlimit own = {};
  const bool known = ::getrlimit(RLIMIT_MEMLOCK, &own) == 0;
  return {.bytes = !known                          ? 0
                   : own.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max()
                                                   : own.rlim_cur};
}

// Errors: it can't be read at the moment, say for want of descriptors. REQUIRES of the caller: to
// look afterwards whether the process has ended.
Result<MemoryLimit> limit_of(pid_t pid) {
  MemoryLimit limit;
  const bool open = read_lines(pid, "limits", [&limit](const char* line) {
    constexpr std::string_view kName = "Max locked memory ";
    if (std::string_view(line).starts_with(kName)) {
      const bool number =
          std::sscanf(line + kName.size(), "%" SCNu64, &limit.bytes) == 1;  // or "unlimited"
      limit.bytes = number ? limit.bytes : std::numeric_limits<std::uint64_t>::max();
      limit.of_program = true;
    }
  });
  if (open && limit.of_program) {
    return limit;
  }
  if (!open && (errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM)) {
    return limit_of_unseen();
  }
  errno = open ? EIO : errno;
  return system_error("the daemon can't read the program's limit of locked memory at the moment");
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

Error beyond_limit(const MemoryLimit& limit, std::uint64_t before, std::uint64_t wanted) {
  return {ENOMEM, "RLIMIT_MEMLOCK allows the program " + std::to_string(limit.bytes / 1024) +
                      " KiB of registered memory, " + std::to_string(before / 1024) +
                      " KiB are registered and " + std::to_string(wanted / 1024) +
                      " KiB more were asked for: raise it (ulimit -l, in KiB)" +
                      (limit.of_program ? ""
                                        : " for uroced, whose own it is, since uroced can't see "
                                          "the program in /proc (hidepid, or another container)")};
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
  // The processes that have no number here (another process namespace) are told apart by
  // connection.
  std::weak_ptr<LockedCharge::Program>& known =
      programs_[{process.pid(), process.pid() == 0 ? process.pidfd() : -1}];
  auto program = known.lock();
  if (program == nullptr || program->process.has_ended()) {
    program = std::make_shared<LockedCharge::Program>(LockedCharge::Program{.process = process});
    known = program;
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
    const auto limit = limit_of(process.pid());
    const bool beyond = limit && before + wanted > limit->bytes;
    const bool exempt = beyond && may_lock_anything(process.pid());
    if (process.has_ended()) {
      return Error{EPERM, "process " + std::to_string(process.pid()) +
                              ", which connected, has ended, and with it the limit "
                              "(RLIMIT_MEMLOCK) for what is registered over its connection"};
    }
    if (!limit) {
      return limit.error();
    }
    if (limit->of_program) {  // the other may change when the mount of /proc does
      program->allowed = exempt ? std::numeric_limits<std::uint64_t>::max() : limit->bytes;
    }
    if (beyond && !exempt) {
      return beyond_limit(*limit, before, wanted);
    }
  }
  program->bytes += wanted;
  LockedCharge charge;
  charge.program_ = program;
  charge.bytes_ = wanted;
  return Result<LockedCharge>(std::move(charge));
}

std::uint64_t LockedMemory::used(pid_t pid) const {
  const auto found = programs_.find({pid, -1});
  const auto program = found == programs_.end() ? nullptr : found->second.lock();
  return program == nullptr ? 0 : program->bytes;
}

}  // namespace uroce
