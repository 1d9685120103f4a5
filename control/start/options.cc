#include "control/start/options.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include "abi/command_records.h"
#include "control/ip/addresses/bare_address.h"
#include "control/ip/limits.h"
#include "control/metrics/metrics_address.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/udp/udp_spec.h"

namespace uroce::control {
namespace {

// Programs have drivers for these vendors' cards and would try them on ours.
constexpr std::uint32_t kTakenVendors[] = {0x15B3, 0x1D0F, 0x8086, 0x1425};
constexpr std::int64_t kVendorIdMax = 0xFF'FFFF;

Error invalid(std::string message) { return Error{EINVAL, std::move(message)}; }

Status set_switch(const std::string& name, const std::string& text, bool* value) {
  if (text != "on" && text != "off") {
    return invalid(name + " is on or off, not '" + text + "'");
  }
  *value = text == "on";
  return ok();
}

Status check_range(const char* what, std::int64_t number, std::int64_t least, std::int64_t most) {
  if (number < least || number > most) {
    return invalid(std::string(what) + " must be from " + std::to_string(least) + " to " +
                   std::to_string(most) + ", not " + std::to_string(number));
  }
  return ok();
}

Status check_resident_limit(std::int64_t bytes) {
  if (bytes == 0) {
    return ok();
  }
  return check_range("a limit of resident on-demand memory", bytes, PagingLimits::kMin,
                     std::int64_t{1} << 46);
}

// Such a port uses the machine's own interfaces, whose VLANs and routes the kernel knows.
// REQUIRES: check_port_spec() accepts its name.
Status check_udp_port(const DaemonPort& port) {
  if (parse_udp_spec(port.spec)->interface.empty() == port.addresses.empty()) {
    return invalid("port " + port.spec +
                   ": give it addresses of this machine, each with an --ip, or with ,iface=NAME "
                   "those of an interface");
  }
  const bool tagged = std::any_of(port.addresses.begin(), port.addresses.end(),
                                  [](const IpPrefix& prefix) { return prefix.vlan != 0; });
  if (tagged || !port.routes.empty() || !port.interface.empty()) {
    return invalid("port " + port.spec +
                   ": the kernel knows this machine's VLANs, routes and interfaces; leave out "
                   "@VLAN, --route and --interface");
  }
  return ok();
}

Status check_port(const DaemonPort& port) {
  if (port.spec.empty()) {
    return invalid("no port is named: --ip, --mtu and --faults need a --port");
  }
  if (Status named = check_port_spec(port.spec); !named) {
    return named;
  }
  if (is_udp_spec(port.spec)) {
    return check_udp_port(port);
  }
  if (port.addresses.empty()) {
    return invalid("port " + port.spec + " has no address: give it one with --ip A.B.C.D/N");
  }
  if (!port.bare_address.empty() && port.spec != "loopback") {
    return invalid("port " + port.spec + ": " + length_wanted(port.bare_address));
  }
  for (const GatewayRoute& route : port.routes) {
    const bool near =
        std::any_of(port.addresses.begin(), port.addresses.end(), [&](const IpPrefix& prefix) {
          return prefix.address.is_ipv4() == route.gateway.is_ipv4() &&
                 prefix.contains(route.gateway);
        });
    if (!near && !is_link_local(route.gateway)) {
      return invalid("port " + port.spec + ": the gateway " + to_string(route.gateway) +
                     " isn't in a subnet of the port");
    }
  }
  return ok();
}

// Peers find an address on one port only.
Status check_addresses_differ(const std::vector<DaemonPort>& ports) {
  std::map<Gid, const DaemonPort*> owners;
  for (const DaemonPort& port : ports) {
    for (const IpPrefix& prefix : port.addresses) {
      const auto [at, added] = owners.emplace(prefix.address, &port);
      if (!added) {
        const std::string where =
            at->second == &port ? " twice" : " of port " + at->second->spec + " too";
        return invalid("port " + port.spec + " has the address " + to_string(prefix.address) +
                       where);
      }
    }
  }
  return ok();
}

}  // namespace

namespace value {

Status add_address(const std::string& text, DaemonPort* port) {
  const auto prefix = parse_prefix(text);
  if (!prefix) {
    return prefix.error();
  }
  if (port->addresses.size() + 1 >= kGidsMax) {
    return invalid("a port has at most " + std::to_string(kGidsMax - 1) + " addresses");
  }
  port->addresses.push_back(*prefix);
  if (port->bare_address.empty() && is_bare_address(text)) {
    port->bare_address = text;
  }
  return ok();
}

Status add_route(const std::string& text, DaemonPort* port) {
  const auto route = parse_gateway_route(text);
  if (!route) {
    return route.error();
  }
  if (port->routes.size() >= Gateways::kRoutesMax) {
    return invalid("a port has at most " + std::to_string(Gateways::kRoutesMax) + " routes");
  }
  port->routes.push_back(*route);
  return ok();
}

Status set_mtu(std::int64_t bytes, DaemonPort* port) {
  Status status = check_range("the MTU in bytes", bytes, kPortMtuMin, kPortMtuMax);
  if (status) {
    port->mtu = static_cast<std::uint32_t>(bytes);
    port->mtu_chosen = true;
  }
  return status;
}

Status set_interface(const std::string& name, DaemonPort* port) {
  constexpr std::size_t kNameMax = 15;  // IFNAMSIZ
  const bool printable = std::all_of(name.begin(), name.end(), [](char letter) {
    return letter > ' ' && letter < 0x7F && letter != '/' && letter != ':' && letter != '%';
  });
  if (name.empty() || name.size() > kNameMax || !printable || name == "." || name == "..") {
    return invalid("'" + name + "' can't be the name of an interface");
  }
  port->interface = name;
  return ok();
}

Status set_faults(const std::string& text, DaemonPort* port) {
  const auto faults = parse_faults(text);
  if (!faults) {
    return faults.error();
  }
  port->faults = *faults;
  return ok();
}

Status set_workers(std::int64_t count, DaemonOptions* options) {
  Status status = check_range("the number of workers", count, 1, abi::kWorkersMax);
  if (status) {
    options->workers = static_cast<std::uint32_t>(count);
  }
  return status;
}

Status set_resident_limit(std::int64_t bytes, DaemonOptions* options) {
  Status status = check_resident_limit(bytes);
  if (status) {
    options->paging.daemon = static_cast<std::uint64_t>(bytes);
  }
  return status;
}

Status set_session_resident_limit(std::int64_t bytes, DaemonOptions* options) {
  Status status = check_resident_limit(bytes);
  if (status) {
    options->paging.session = static_cast<std::uint64_t>(bytes);
  }
  return status;
}

Status set_recovery(const std::string& text, DaemonOptions* options) {
  if (text != "selective" && text != "go-back-n") {
    return invalid("recovery is selective or go-back-n, not '" + text + "'");
  }
  options->recovery = text == "selective" ? Recovery::kSelective : Recovery::kGoBackN;
  return ok();
}

Status set_direct(const std::string& text, DaemonOptions* options) {
  return set_switch("direct", text, &options->direct);
}

Status set_latency(const std::string& text, DaemonOptions* options) {
  return set_switch("latency", text, &options->latency);
}

Status set_idle(const std::string& text, DaemonOptions* options) {
  if (text != "poll" && text != "adaptive") {
    return invalid("the idle policy is poll or adaptive, not '" + text + "'");
  }
  options->idle = text == "poll" ? IdlePolicy::kPoll : IdlePolicy::kAdaptive;
  return ok();
}

Status set_socket_mode(const std::string& octal, DaemonOptions* options) {
  unsigned mode = 0;
  const auto [end, failure] = std::from_chars(octal.data(), octal.data() + octal.size(), mode, 8);
  if (failure != std::errc{} || end != octal.data() + octal.size() || mode > 0777) {
    return invalid("the socket's mode is an octal number like 0666 or 0660, not '" + octal + "'");
  }
  options->socket_mode = mode;
  return ok();
}

Status set_metrics(const std::string& where, DaemonOptions* options) {
  if (const auto parsed = parse_metrics_address(where); !parsed) {
    return parsed.error();
  }
  options->metrics = where;
  return ok();
}

Status set_log_level(const std::string& text, DaemonOptions* options) {
  constexpr const char* kLevels[] = {"trace", "debug", "info", "warning", "error", "off"};
  if (std::find(std::begin(kLevels), std::end(kLevels), text) == std::end(kLevels)) {
    return invalid("the log level is trace, debug, info, warning, error or off, not '" + text +
                   "'");
  }
  options->log_level = text;
  return ok();
}

Status set_call_filter(const std::string& text, DaemonOptions* options) {
  constexpr std::pair<const char*, CallFilter> kModes[] = {{"off", CallFilter::kOff},
                                                           {"log", CallFilter::kLog},
                                                           {"on", CallFilter::kOn},
                                                           {"kill", CallFilter::kKill}};
  for (const auto& [name, mode] : kModes) {
    if (text == name) {
      options->call_filter = mode;
      return ok();
    }
  }
  return invalid("seccomp is on, kill, log or off, not '" + text + "'");
}

Status set_vendor_id(std::int64_t id, DaemonOptions* options) {
  Status status = check_range("the vendor id", id, 1, kVendorIdMax);
  if (!status) {
    return status;
  }
  if (std::find(std::begin(kTakenVendors), std::end(kTakenVendors), id) !=
      std::end(kTakenVendors)) {
    return invalid("this vendor id is a hardware vendor's; programs would take uroce for its card");
  }
  options->identity.vendor_id = static_cast<std::uint32_t>(id);
  return ok();
}

Status set_vendor_part_id(std::int64_t id, DaemonOptions* options) {
  Status status = check_range("the vendor part id", id, 0, 0xFFFF'FFFF);
  if (status) {
    options->identity.vendor_part_id = static_cast<std::uint32_t>(id);
  }
  return status;
}

}  // namespace value

Status check_options(const DaemonOptions& options) {
  if (options.ports.empty()) {
    return invalid("no port is given: say, for instance, --port loopback --ip 10.0.0.1/24");
  }
  if (options.ports.size() > kDevicesMax) {
    return invalid("there are at most " + std::to_string(kDevicesMax) + " ports");
  }
  for (const DaemonPort& port : options.ports) {
    if (Status status = check_port(port); !status) {
      return status;
    }
  }
  return check_addresses_differ(options.ports);
}

}  // namespace uroce::control
