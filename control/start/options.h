#pragma once

// The user's options, from flags of uroced and the TOML file of --config, checked. Flags override
// the file; ports given by flags replace the file's.

#include <sys/types.h>

#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/ip/addresses/gid_table.h"
#include "control/ip/device.h"
#include "control/ip/gateways.h"
#include "control/paging/limits.h"
#include "control/start/call_filter.h"
#include "dataplane/engine/engine.h"
#include "dataplane/port/faults/faults.h"
#include "dataplane/qp/congestion/congestion_settings.h"
#include "shares/shares.h"

namespace uroce::control {

struct DaemonPort {
  std::string spec;  // "loopback", "udp", "shm,path=FILE", a PCI address, a vdev string
  std::vector<IpPrefix> addresses;
  std::string bare_address;  // the first without a prefix length; empty: all have one
  std::vector<GatewayRoute> routes;
  std::uint32_t mtu = 1500;
  bool mtu_chosen = false;  // by the user
  std::string interface;    // name of the tap interface that carries the addresses; empty: none
  Faults faults;
};

// The numbers of users, by name.
using KnownUsers = std::map<std::string, uid_t>;

struct DaemonOptions {
  std::vector<DaemonPort> ports;
  std::string socket;
  unsigned socket_mode = 0666;  // who may connect: by default every local user
  std::uint32_t workers = 1;
  IdlePolicy idle = IdlePolicy::kAdaptive;
  Recovery recovery = Recovery::kSelective;
  bool direct = true;   // messages between queue pairs of one worker need no frames
  bool latency = true;  // queue pairs time their messages
  PagingLimits paging;
  ConfiguredLimits limits;
  KnownUsers known_users;  // of the tables in the file, by an earlier reading
  CongestionSettings congestion;
  Identity identity;
  std::string log_level = "info";
  std::string pid_file;
  std::string metrics;  // where metrics are served; empty: nowhere
  int ready_descriptor = -1;
  CallFilter call_filter = kCallFilterDefault;
  bool telemetry = false;
  bool console = false;
  std::vector<std::string> eal_arguments;
  std::vector<std::string> command_line;  // argv, including the program's name, for a reload
};

// The parsed command line: options to start with, or a text to print (--help, --version, --check).
struct CommandLine {
  DaemonOptions options;
  std::string text;
};
// The code of the error if a table in the file is for a user whom nobody knows here: a directory
// service may know this name later. Every other error stays until somebody changes flags or file.
inline constexpr int kUserUnknown = ESRCH;
// Users in `known` aren't looked up again.
Result<CommandLine> parse_command_line(int argc, const char* const* argv,
                                       const KnownUsers& known = {});

// Checks of one value, shared by flags and file. EINVAL with a sentence that doesn't name the key.
namespace value {
Status add_address(const std::string& text, DaemonPort* port);
Status add_route(const std::string& text, DaemonPort* port);
Status set_mtu(std::int64_t bytes, DaemonPort* port);
Status set_interface(const std::string& name, DaemonPort* port);
Status set_faults(const std::string& text, DaemonPort* port);
Status set_workers(std::int64_t count, DaemonOptions* options);
Status set_idle(const std::string& text, DaemonOptions* options);
Status set_recovery(const std::string& text, DaemonOptions* options);
Status set_direct(const std::string& text, DaemonOptions* options);
Status set_latency(const std::string& text, DaemonOptions* options);
Status set_socket_mode(const std::string& octal, DaemonOptions* options);
Status set_metrics(const std::string& where, DaemonOptions* options);
Status set_log_level(const std::string& text, DaemonOptions* options);
Status set_resident_limit(std::int64_t bytes, DaemonOptions* options);
Status set_session_resident_limit(std::int64_t bytes, DaemonOptions* options);
Status set_congestion(const std::string& text, DaemonOptions* options);
// A parameter of DCQCN, by its name.
Status set_dcqcn(const std::string& name, std::int64_t number, DaemonOptions* options);
Status set_cnp_interval(std::int64_t microseconds, DaemonOptions* options);
Status set_cnp_dscp(std::int64_t dscp, DaemonOptions* options);
Status set_vendor_id(std::int64_t id, DaemonOptions* options);
Status set_call_filter(const std::string& text, DaemonOptions* options);
Status set_vendor_part_id(std::int64_t id, DaemonOptions* options);
}  // namespace value

// Reads a TOML file into *options. Errors name file, line and key.
Status read_config_file(const std::string& path, DaemonOptions* options);

// Checks across options: at least one port, no address twice, and so on.
Status check_options(const DaemonOptions& options);

}  // namespace uroce::control
