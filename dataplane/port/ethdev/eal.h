#pragma once

// The EAL (DPDK's environment abstraction layer): started at most once per process, with arguments
// suited to a daemon that shares a small machine with the programs it serves.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace uroce {

struct EalOptions {
  std::uint32_t workers = 1;         // worker lcores, besides the main one
  std::vector<std::string> ports{};  // port specs: those with a PCI address need the PCI bus
  std::string name = "uroce";        // part of the file prefix
  bool telemetry = false;            // rte_telemetry's socket
  std::vector<std::string> extra{};  // the user's own arguments, which override ours
};

// The arguments that start_eal passes to rte_eal_init, program name first. For tests and --help.
[[nodiscard]] std::vector<std::string> eal_arguments(const EalOptions& options);

// Starts the EAL on the calling thread, which becomes the main lcore. Works as an ordinary user and
// without huge pages. The error names what the EAL refused.
Status start_eal(const EalOptions& options);
[[nodiscard]] bool eal_is_running();
void stop_eal();

}  // namespace uroce
