#include "mmu/proc_mem/program_rights.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/capabilities.h"

namespace uroce {
namespace {

// Of /proc/PID/status: real, effective, saved and of the file system.
struct Rights {
  std::array<std::uint32_t, 4> uids{}, gids{};
  std::uint64_t permitted = 0;  // capabilities
};

bool read_rights(const std::string& process, Rights* rights) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen((process + "/status").c_str(), "re"), std::fclose);
  auto& [uids, gids, permitted] = *rights;
  int found = 0;
  std::array<char, 256> line{};  // a longer line, of groups, is read in parts
  while (file != nullptr && std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    found += std::sscanf(line.data(), "Uid: %" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &uids[0],
                         &uids[1], &uids[2], &uids[3]);
    found += std::sscanf(line.data(), "Gid: %" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32, &gids[0],
                         &gids[1], &gids[2], &gids[3]);
    found += std::sscanf(line.data(), "CapPrm: %" SCNx64, &permitted);
  }
  return found == 4 + 4 + 1;
}

// The kernel gives the files of a process that it keeps from its own user (after the exec of a
// program with more rights, or that its user can't read, or after setuid(2)) to root of the
// process's user namespace.
bool is_dumpable(const std::string& process, uid_t user) {
  struct stat owner = {};
  return ::stat((process + "/mem").c_str(), &owner) == 0 && owner.st_uid == user;
}

// Supplementary groups and access control lists aren't looked at: only what the mode says of both.
bool user_reads_file(const std::string& process, const ProgramProcess& program) {
  struct stat file = {};
  if (::stat((process + "/exe").c_str(), &file) != 0) {
    return false;
  }
  const mode_t needed = file.st_uid == program.uid()   ? S_IRUSR
                        : file.st_gid == program.gid() ? S_IRGRP
                                                       : S_IRGRP | S_IROTH;
  return (file.st_mode & needed) == needed;
}

}  // namespace

Status check_rights(const ProgramProcess& program) {
  const std::string process = "/proc/" + std::to_string(program.pid());
  Rights rights;
  if (!read_rights(process, &rights)) {
    return Error{EPERM, "can't read " + process + "/status, so the memory is left alone"};
  }
  const auto all_are = [](const auto& ids, std::uint32_t wanted) {
    return std::all_of(ids.begin(), ids.end(), [&](std::uint32_t id) { return id == wanted; });
  };
  if (program.uid() == 0 && rights.uids[1] == 0) {
    return ok();
  }
  if (!all_are(rights.uids, program.uid()) || !all_are(rights.gids, program.gid())) {
    return Error{EPERM, "process " + std::to_string(program.pid()) + " doesn't run only as user " +
                            std::to_string(program.uid()) + " and group " +
                            std::to_string(program.gid()) +
                            ", as which it connected, so its memory is left alone"};
  }
  const bool dumpable = is_dumpable(process, program.uid());
  // In a user namespace of its own root may have all of them, which mean nothing outside.
  const bool capable = dumpable ? (rights.permitted & ~kCapabilitiesOfNoReach) != 0 &&
                                      program.shares_user_namespace()
                                : rights.permitted != 0;
  if (capable || (!dumpable && !user_reads_file(process, program))) {
    return Error{EPERM, "process " + std::to_string(program.pid()) +
                            " has capabilities, or runs a file that its user can't read, so its "
                            "memory is left alone"};
  }
  return ok();
}

}  // namespace uroce
