#pragma once

// The facts about the machine and the daemon that `uroce doctor` checks. Gathered here, evaluated
// in findings.h.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace uroce::doctor {

struct DaemonFacts {
  std::string socket;
  int error = 0;                  // of connecting to it; 0: it answers
  std::string refusal;            // the sentence
  nlohmann::ordered_json report;  // of `uroce status`, if it answers
};

struct LibraryFacts {
  std::string loaded;  // the libibverbs.so.1 that a program started here gets; empty: none
  std::string ours;    // the one that belongs to this tool; empty: not found
};

struct KernelFacts {
  // Whether this user may have one: for all that touches its memory, or for user mode only. One
  // that holds no writers is no use (arm64, Linux before 6.10).
  enum class UserFault : std::uint8_t { kRefused, kHoldsNoWriters, kUserMode, kAll };
  UserFault userfaultfd = UserFault::kRefused;
  bool procmap_query = false;  // Linux 6.11
  bool pidfd = false;
  std::uint64_t huge_pages = 0;
  std::uint64_t memlock_bytes = 0;        // UINT64_MAX: no limit
  std::uint64_t processors = 0;           // that we may run on
  bool roce_port_taken = false;           // UDP port 4791 is bound
  std::vector<std::string> kernel_cards;  // /sys/class/infiniband
};

struct Facts {
  std::string version;  // of this tool
  bool root = false;
  DaemonFacts daemon;
  LibraryFacts library;
  KernelFacts kernel;
};

[[nodiscard]] Facts gather(const std::string& our_library);
[[nodiscard]] KernelFacts gather_kernel();

}  // namespace uroce::doctor
