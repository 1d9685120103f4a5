#pragma once

// The daemon's options, each named once: NAME is a flag of uroced (--NAME) and a key of the file of
// --config. command_line.cc and config_file.cc set them, reload.cc compares them. What is only a
// flag (--check) or only a key (limits) stands where it is read.

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "control/start/options.h"

namespace uroce::control {

template <typename Target>
struct Option {
  using SetText = Status (*)(const std::string&, Target*);
  using SetNumber = Status (*)(std::int64_t, Target*);
  using Switch = bool Target::*;  // its flag needs no value

  std::string name;
  std::string type;  // what its value is, for --help
  std::string help;
  std::variant<SetText, SetNumber, Switch> set;
};

struct PortOption : Option<DaemonPort> {
  bool repeats = false;  // an array in the file
};

struct DaemonOption : Option<DaemonOptions> {
  std::string (*text)(const DaemonOptions&);  // of its value: another one for another value
  bool reloads = false;  // reload.cc takes a new value; the others need a restart
};

// Without `port` itself, which begins a port.
std::span<const PortOption> port_options();
// In the order of --help.
std::span<const DaemonOption> daemon_options();

}  // namespace uroce::control
