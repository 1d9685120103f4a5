#pragma once

// RLIMIT_MEMLOCK of programs, kept by the daemon: what libibverbs counts in the program
// (verbs_shim/memory/sharing/memory_limit.h) a program may well leave out. Control thread only.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/program_process.h"
#include "base/result.h"

namespace uroce {

class LockedMemory;

// What a region has locked of its program's memory; given back when this goes.
class LockedCharge {
 public:
  LockedCharge() = default;
  LockedCharge(LockedCharge&& other) noexcept { swap(other); }
  LockedCharge& operator=(LockedCharge&& other) noexcept {
    LockedCharge(std::move(other)).swap(*this);
    return *this;
  }
  LockedCharge(const LockedCharge&) = delete;
  LockedCharge& operator=(const LockedCharge&) = delete;
  ~LockedCharge();

 private:
  friend class LockedMemory;
  struct Program;  // what all its regions have
  void swap(LockedCharge& other) noexcept {
    std::swap(program_, other.program_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<Program> program_;
  std::uint64_t bytes_ = 0;
};

// Of all programs, by process: as Linux counts what drivers pin, each registration for itself.
class LockedMemory {
 public:
  LockedMemory() = default;
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

  // For the whole pages of a range. If it is going to take the place of a charge, the limit must
  // allow it without that. ENOMEM: beyond the process's limit, and it hasn't CAP_IPC_LOCK.
  // EPERM: it has ended, and whoever goes on with its connection has no limit to be asked for.
  // EMFILE and the like: its limit can't be read at the moment, so nothing is allowed. Where the
  // daemon can't see the process at all, its own limit counts instead.
  Result<LockedCharge> charge(const ProgramProcess& process, std::uint64_t address,
                              std::uint64_t length, const LockedCharge* replaced = nullptr);
  [[nodiscard]] std::uint64_t used(pid_t pid) const;  // REQUIRES: not 0

 private:
  std::shared_ptr<LockedCharge::Program> program_of(const ProgramProcess& process);

  // Those with charges. Who has a number after another one has an account of its own. The second of
  // the key is -1, except where the first one is 0: then it is the connection's pidfd.
  std::map<std::pair<pid_t, int>, std::weak_ptr<LockedCharge::Program>> programs_;
};

}  // namespace uroce
