#pragma once

// SIGHUP: reads flags and file again, and applies what can change while programs are served. Each
// difference is logged; a file that can't be read or parsed changes nothing.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/kernel/kernel_addresses.h"
#include "control/sessions/card.h"
#include "control/start/options.h"
#include "dataplane/port/port.h"

namespace uroce::control {

class Reload {
 public:
  // `given`: the options at the start. Card, kernel and ports (of the card's devices, in the same
  // order) outlive this.
  Reload(DaemonOptions given, Card& card, KernelAddresses& kernel,
         const std::vector<std::unique_ptr<Port>>& ports)
      : given_(std::move(given)), card_(card), kernel_(kernel), ports_(ports) {}

  // Reads the command line and its file again and applies them. Returns a sentence per line for the
  // log; an error if they can't be read or parsed, and nothing is changed.
  Result<std::vector<std::string>> read_again();
  // The same for options that have been read. REQUIRES: they were checked.
  std::vector<std::string> take(const DaemonOptions& wanted);

 private:
  using Lines = std::vector<std::string>;
  void take_log_level(const DaemonOptions& wanted, Lines* lines);
  void take_limits(const DaemonOptions& wanted, Lines* lines);
  void take_port(std::size_t index, const DaemonPort& wanted, Lines* lines);
  void take_addresses(const std::vector<DaemonPort>& wanted, Lines* lines);
  [[nodiscard]] bool another_has(std::size_t index, const IpPrefix& prefix) const;
  void bring_missing(std::size_t index, const std::vector<IpPrefix>& wanted, Lines* lines);
  void drop_surplus(std::size_t index, const std::vector<IpPrefix>& wanted, Lines* lines);
  void bring_address(std::size_t index, const IpPrefix& prefix, Lines* lines);
  void note_given(std::size_t index, const IpPrefix& prefix);
  bool drop_address(std::size_t index, const IpPrefix& prefix, Lines* lines);
  void take_faults(std::size_t index, const DaemonPort& wanted, Lines* lines);

  DaemonOptions given_;  // the options that have been applied
  Card& card_;
  KernelAddresses& kernel_;
  const std::vector<std::unique_ptr<Port>>& ports_;
};

}  // namespace uroce::control
