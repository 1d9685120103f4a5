#pragma once

// SIGHUP: reads flags and file again, and applies what can change while programs are served. Each
// difference is a line in the log; a file that can't be read or parsed changes nothing at all.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/kernel_addresses.h"
#include "control/sessions/card.h"
#include "control/start/options.h"
#include "dataplane/port/port.h"

namespace uroce::control {

class Reload {
 public:
  // `given` is what the user chose at the start. Card, kernel and ports (of the card's devices, in
  // their order) outlive this.
  Reload(DaemonOptions given, Card& card, KernelAddresses& kernel,
         const std::vector<std::unique_ptr<Port>>& ports)
      : given_(std::move(given)), card_(card), kernel_(kernel), ports_(ports) {}

  // Reads the daemon's command line again. What became of it, a sentence a line.
  std::vector<std::string> read_again();
  // The same for options that have been read. REQUIRES: they were checked.
  std::vector<std::string> take(const DaemonOptions& wanted);

 private:
  using Lines = std::vector<std::string>;
  void take_log_level(const DaemonOptions& wanted, Lines* lines);
  void take_limits(const DaemonOptions& wanted, Lines* lines);
  void take_port(std::size_t index, const DaemonPort& wanted, Lines* lines);
  void take_addresses(std::size_t index, const DaemonPort& wanted, Lines* lines);
  void bring_address(std::size_t index, const IpPrefix& prefix, Lines* lines);
  bool drop_address(std::size_t index, const IpPrefix& prefix, Lines* lines);
  void take_faults(std::size_t index, const DaemonPort& wanted, Lines* lines);

  DaemonOptions given_;  // as far as it has been taken
  Card& card_;
  KernelAddresses& kernel_;
  const std::vector<std::unique_ptr<Port>>& ports_;
};

}  // namespace uroce::control
