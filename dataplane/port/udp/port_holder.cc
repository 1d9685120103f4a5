// /proc/net/udp names sockets by inode and user; the owner of an inode is found in /proc/PID/fd.

#include "dataplane/port/udp/port_holder.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "dataplane/wire/headers.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kProcessesMax = 65'536;  // examined

struct Holder {
  std::uint64_t inode = 0;  // 0: no process's socket
  std::uint32_t user = 0;
};

// In the table's format: words of four bytes in the processor's byte order.
std::string table_address(const Gid& address) {
  std::array<std::uint32_t, 4> words{};
  std::memcpy(words.data(), address.bytes.data(), sizeof(words));
  char text[33];
  if (address.is_ipv4()) {
    std::snprintf(text, sizeof(text), "%08X", words[3]);
  } else {
    std::snprintf(text, sizeof(text), "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
  }
  return text;
}

// A line of the table, if it is about the port and covers this address.
std::optional<Holder> holder_in(const std::string& line, const std::string& wanted) {
  std::istringstream words(line);
  std::string slot, local, remote, state, queues, timer, retransmits;
  Holder holder;
  std::uint64_t timeout = 0;
  words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> holder.user >>
      timeout >> holder.inode;
  const std::size_t colon = local.find(':');
  char port[5];
  std::snprintf(port, sizeof(port), "%04X", unsigned{kRoceUdpPort});
  if (!words || colon == std::string::npos || local.substr(colon + 1) != port) {
    return std::nullopt;
  }
  const std::string address = local.substr(0, colon);
  const bool any = address.find_first_not_of('0') == std::string::npos;
  return any || address == wanted ? std::optional(holder) : std::nullopt;
}

std::optional<Holder> find_holder(const Gid& address) {
  const std::string wanted = table_address(address);
  for (const char* table : {"/proc/self/net/udp", "/proc/self/net/udp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      if (const auto holder = holder_in(line, wanted)) {
        return holder;
      }
    }
  }
  return std::nullopt;
}

bool has_socket(const fs::path& process, const std::string& socket) {
  std::error_code failure;
  for (fs::directory_iterator at(process / "fd", failure), end; !failure && at != end;
       at.increment(failure)) {
    std::error_code unreadable;
    if (fs::read_symlink(at->path(), unreadable) == socket) {
      return true;
    }
  }
  return false;
}

// "name (process N)"; empty: no process whose descriptors we may read.
std::string process_with(std::uint64_t inode) {
  const std::string socket = "socket:[" + std::to_string(inode) + "]";
  std::error_code failure;
  std::uint32_t looked_at = 0;
  for (fs::directory_iterator at("/proc", failure), end;
       !failure && at != end && looked_at < kProcessesMax; at.increment(failure)) {
    const std::string pid = at->path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) {
      continue;
    }
    ++looked_at;
    if (has_socket(at->path(), socket)) {
      std::string name;
      std::ifstream command(at->path() / "comm");
      std::getline(command, name);
      return name + " (process " + pid + ")";
    }
  }
  return {};
}

// A second uroced isn't necessary: programs can share the first.
std::string what_to_do(const std::string& holder) {
  if (holder == "the kernel") {
    return ", its Soft-RoCE for instance: unload it (rmmod rdma_rxe), or take another address";
  }
  return holder.starts_with("uroced")
             ? ": let programs use that one (UROCE_SOCKET), stop it, or take another address"
             : ": stop it, or take another address";
}

}  // namespace

std::string roce_port_holder(const Gid& address) {
  const auto holder = find_holder(address);
  if (!holder) {
    return {};
  }
  if (std::string process = process_with(holder->inode); !process.empty()) {
    return process;
  }
  // Root sees every process, so an inode that it doesn't find belongs to no process.
  return ::geteuid() == 0 ? "the kernel" : "a process of user " + std::to_string(holder->user);
}

std::string roce_port_taken(const Gid& address) {
  const std::string holder = roce_port_holder(address);
  return "UDP port 4791 of " + to_string(address) + " is taken by " +
         (holder.empty() ? "a process that /proc doesn't show" : holder) + what_to_do(holder);
}

}  // namespace uroce
