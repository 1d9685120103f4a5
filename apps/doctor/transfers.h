#pragma once

// `uroce doctor PEER`: real transfers between two machines, of each size, every byte compared. An
// ordinary verbs program on what apps/integrity has for that.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/integrity/integrity_link.h"
#include "apps/integrity/integrity_verbs.h"
#include "apps/progress/progress.h"

namespace uroce::doctor {

inline constexpr std::uint32_t kTransferSizes[] = {8, 256, 1'024, 4'096, 65'536, 1'048'576};
inline constexpr std::uint32_t kTransferBytesMax = 1'048'576;

struct TransferResult {
  std::uint32_t bytes = 0;
  std::string failure;  // why it didn't get there; empty: it did
  std::uint64_t wrong_bytes = 0;
  double write_seconds = 0, read_seconds = 0;  // of one transfer, the median
  double gigabits_per_second = 0;              // of WRITEs, several at a time
};

// The largest IP packet that the way to this host carries, as far as the kernel knows; 0: it
// doesn't.
[[nodiscard]] std::uint32_t path_mtu_to(const std::string& host);

// Connects one queue pair with the peer's. Empty, or why their addresses can't be connected.
std::string meet(const integrity::Link& link, integrity::Card& card);

// Writes to the peer's memory and reads it back. A failure ends the sizes: the connection is gone.
// `progress` counts sizes.
[[nodiscard]] std::vector<TransferResult> transfer_all(integrity::Card& card, Progress& progress);

// The path to the peer, as seen from here.
struct PathFacts {
  std::uint32_t path_mtu = 0;  // 0: unknown
  std::string loopback{};      // the device's name, if its port is a loopback
};

// The advice that follows from which sizes failed.
[[nodiscard]] std::string advice(const std::vector<TransferResult>& results, const PathFacts& path);

}  // namespace uroce::doctor
