#include "control/start/reload.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "control/commands/address_changes.h"
#include "control/start/option_table.h"
#include "dataplane/port/faults/faulty_port.h"

namespace uroce::control {
namespace {

// What isn't in the table of options, and needs a restart.
struct Fixed {
  const char* name;
  std::string (*text)(const DaemonOptions&);
};

std::string dcqcn_text(const DaemonOptions& options) {
  const DcqcnParameters& d = options.congestion.dcqcn;
  std::string text;
  for (const std::uint32_t number :
       {d.rpg_time_reset, d.rpg_threshold, d.rpg_ai_rate, d.rpg_hai_rate, d.rpg_max_rate,
        d.rpg_min_rate, d.rpg_min_dec_fac, d.rpg_gd, d.initial_alpha_value, d.dce_tcp_g,
        d.dce_tcp_rtt}) {
    text += std::to_string(number) + " ";
  }
  return text;
}

constexpr Fixed kFixed[] = {
    {"dcqcn", dcqcn_text},
    {"eal",
     [](const DaemonOptions& o) {
       std::string all;
       for (const std::string& argument : o.eal_arguments) {
         all += argument + "\n";
       }
       return all;
     }},
    {"the number or the kind of ports",
     [](const DaemonOptions& o) {
       std::string all;
       for (const DaemonPort& port : o.ports) {
         all += port.spec + "\n";
       }
       return all;
     }},
};

bool contains(const std::vector<IpPrefix>& all, const IpPrefix& one) {
  return std::any_of(all.begin(), all.end(), [&one](const IpPrefix& other) {
    return other.address == one.address && other.length == one.length && other.vlan == one.vlan;
  });
}

std::string text_of(const std::vector<GatewayRoute>& routes) {
  std::string text;
  for (const GatewayRoute& route : routes) {
    text += to_string(route.destination) + "=" + to_string(route.gateway) + " ";
  }
  return text;
}

// Whether an address that is here with another prefix length than the file's stays as it is. Where
// there are no peers to be resolved, the length decides next to nothing, and changing it isn't
// worth the connections that use the address.
bool keeps_prefix(const Device& device, const IpPrefix& here, const IpPrefix& wanted) {
  return here.vlan == wanted.vlan && (device.loops_back() || device.resolves_itself());
}

}  // namespace

Result<std::vector<std::string>> Reload::read_again() {
  std::vector<const char*> words;
  for (const std::string& word : given_.command_line) {
    words.push_back(word.c_str());
  }
  // The control thread doesn't wait for a directory service again.
  KnownUsers known;
  for (const auto& [uid, user] : given_.limits.of_user) {
    known[user.name] = uid;
  }
  const auto line = parse_command_line(static_cast<int>(words.size()), words.data(), known);
  if (!line) {
    return line.error();
  }
  return take(line->options);
}

std::vector<std::string> Reload::take(const DaemonOptions& wanted) {
  Lines lines;
  const auto compare = [&](const std::string& name, std::string (*text)(const DaemonOptions&)) {
    if (text(given_) != text(wanted)) {
      lines.push_back(name + ": takes effect only after a restart");
    }
  };
  for (const DaemonOption& option : daemon_options()) {
    if (!option.reloads) {
      compare(option.name, option.text);
    }
  }
  for (const Fixed& fixed : kFixed) {
    compare(fixed.name, fixed.text);
  }
  take_log_level(wanted, &lines);
  take_limits(wanted, &lines);
  // If the ports differ from the existing ones, their addresses differ as well, and can't be
  // matched to ports.
  const bool same_ports =
      std::equal(given_.ports.begin(), given_.ports.end(), wanted.ports.begin(), wanted.ports.end(),
                 [](const DaemonPort& a, const DaemonPort& b) { return a.spec == b.spec; });
  if (same_ports) {
    take_addresses(wanted.ports, &lines);
    for (std::size_t i = 0; i < wanted.ports.size(); ++i) {
      take_port(i, wanted.ports[i], &lines);
    }
  }
  if (lines.empty()) {
    lines.emplace_back("nothing changed");
  }
  return lines;
}

void Reload::take_log_level(const DaemonOptions& wanted, Lines* lines) {
  if (given_.log_level != wanted.log_level) {
    spdlog::set_level(spdlog::level::from_str(wanted.log_level));
    lines->push_back("log-level: " + wanted.log_level + " from now on");
    given_.log_level = wanted.log_level;
  }
}

void Reload::take_limits(const DaemonOptions& wanted, Lines* lines) {
  if (given_.limits != wanted.limits) {
    card_.shares().set_limits(wanted.limits);
    lines->emplace_back(
        "limits: in force for new objects; existing ones are kept (`uroce limits`)");
    given_.limits = wanted.limits;
  }
}

void Reload::take_port(std::size_t index, const DaemonPort& wanted, Lines* lines) {
  const std::string name = card_.devices()[index].name();
  if (given_.ports[index].mtu != wanted.mtu) {
    lines->push_back(name + ": mtu: takes effect only after a restart");
  }
  if (given_.ports[index].interface != wanted.interface) {
    lines->push_back(name + ": interface: takes effect only after a restart");
  }
  if (text_of(given_.ports[index].routes) != text_of(wanted.routes)) {
    card_.devices()[index].set_gateways(Gateways(wanted.routes));
    given_.ports[index].routes = wanted.routes;
    lines->push_back(name + ": route: " + std::to_string(wanted.routes.size()) +
                     " routes from now on");
  }
  take_faults(index, wanted, lines);
}

// Additions come first, so that a port has an address at all times, except for those that another
// port has: these wait until that port has lost them. Addresses that `uroce addr` added aren't
// touched until the file has them, too. A failure is reported in a line, doesn't prevent other
// changes, and is retried by the next reload.
void Reload::take_addresses(const std::vector<DaemonPort>& wanted, Lines* lines) {
  std::vector<std::vector<IpPrefix>> moving(wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::vector<IpPrefix> free;
    for (const IpPrefix& prefix : wanted[i].addresses) {
      (another_has(i, prefix) ? moving[i] : free).push_back(prefix);
    }
    bring_missing(i, free, lines);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    drop_surplus(i, wanted[i].addresses, lines);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    bring_missing(i, moving[i], lines);
  }
}

bool Reload::another_has(std::size_t index, const IpPrefix& prefix) const {
  const auto& devices = card_.devices();
  return std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return &device != &devices[index] && device.gids().owns(prefix.address);
  });
}

// An address that gets another prefix or VLAN must be removed before it is added again, if it gets
// it (keeps_prefix()).
void Reload::bring_missing(std::size_t index, const std::vector<IpPrefix>& wanted, Lines* lines) {
  const std::vector<IpPrefix> before = given_.ports[index].addresses;
  for (const IpPrefix& prefix : wanted) {
    if (contains(before, prefix)) {
      continue;
    }
    const auto same = std::find_if(before.begin(), before.end(), [&prefix](const IpPrefix& one) {
      return one.address == prefix.address;
    });
    if (same == before.end() || keeps_prefix(card_.devices()[index], *same, prefix) ||
        drop_address(index, *same, lines)) {
      bring_address(index, prefix, lines);
    }
  }
}

void Reload::drop_surplus(std::size_t index, const std::vector<IpPrefix>& wanted, Lines* lines) {
  const std::vector<IpPrefix> before = given_.ports[index].addresses;
  for (const IpPrefix& prefix : before) {
    if (!contains(wanted, prefix)) {
      (void)drop_address(index, prefix, lines);
    }
  }
}

void Reload::bring_address(std::size_t index, const IpPrefix& prefix, Lines* lines) {
  Device& device = card_.devices()[index];
  // `uroce addr` may have added it, with this prefix and VLAN or others; the entry at index 0
  // follows from the Ethernet address.
  const std::vector<IpPrefix> entries(device.gids().entries().begin() + 1,
                                      device.gids().entries().end());
  if (contains(entries, prefix)) {
    note_given(index, prefix);
    lines->push_back(device.name() + ": ip: " + to_string(prefix) + " was there already");
    return;
  }
  const auto other = std::find_if(entries.begin(), entries.end(), [&prefix](const IpPrefix& one) {
    return one.address == prefix.address;
  });
  if (other != entries.end() && keeps_prefix(device, *other, prefix)) {
    note_given(index, prefix);
    lines->push_back(device.name() + ": ip: " + to_string(prefix) + " was there already, as " +
                     to_string(*other));
    return;
  }
  if (other != entries.end() && !drop_address(index, *other, lines)) {
    return;
  }
  if (Status status = add_address(card_, kernel_, device, prefix); !status) {
    lines->push_back(device.name() + ": ip: " + status.error().message);
    return;
  }
  note_given(index, prefix);
  lines->push_back(device.name() + ": ip: " + to_string(prefix) + " is added");
}

// In place of what the file had of this address.
void Reload::note_given(std::size_t index, const IpPrefix& prefix) {
  std::vector<IpPrefix>& given = given_.ports[index].addresses;
  std::erase_if(given, [&prefix](const IpPrefix& one) { return one.address == prefix.address; });
  given.push_back(prefix);
}

// True if the port doesn't have it any more, also if `uroce addr` had removed it.
bool Reload::drop_address(std::size_t index, const IpPrefix& prefix, Lines* lines) {
  Device& device = card_.devices()[index];
  const Status status = remove_address(card_, kernel_, device, prefix.address);
  if (!status && status.error().code != ENOENT) {
    lines->push_back(device.name() + ": ip: " + status.error().message);
    return false;
  }
  std::erase_if(given_.ports[index].addresses,
                [&prefix](const IpPrefix& one) { return one.address == prefix.address; });
  lines->push_back(device.name() + ": ip: " + to_string(prefix) +
                   (status ? " is removed" : " was gone already"));
  return true;
}

void Reload::take_faults(std::size_t index, const DaemonPort& wanted, Lines* lines) {
  Faults& present = given_.ports[index].faults;
  if (to_string(present) == to_string(wanted.faults)) {
    return;
  }
  const std::string name = card_.devices()[index].name();
  auto* const port = dynamic_cast<FaultyPort*>(ports_[index].get());
  if (port == nullptr) {
    lines->push_back(name +
                     ": faults: takes effect only after a restart, since it began without any");
    return;
  }
  port->change(wanted.faults);
  take_over_on_workers(card_, card_.devices()[index]);
  present = wanted.faults;
  lines->push_back(name + ": faults: " + (wanted.faults.any() ? to_string(wanted.faults) : "none") +
                   " from now on");
}

}  // namespace uroce::control
