// The TOML file of --config (toml++). Its keys are the flags' names without dashes in front:
//
//   socket = "/run/uroce/uroce.sock"
//   workers = 1
//
//   [dcqcn]
//   rpg_ai_rate = 10
//
//   [limits]
//   qps = 10000
//
//   [limits.alice]
//   qps = 60000
//
//   [[port]]
//   port = "loopback"
//   ip = ["10.0.0.1/24", "fd00::1/64"]
//   mtu = 4200
//
// With one port its keys may be at top level, without [[port]].

#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/system_error.h"
#include "control/start/limits_table.h"
#include "control/start/options.h"

namespace uroce::control {
namespace {

using Take = std::function<Status(const toml::node&)>;
using Keys = std::map<std::string, Take, std::less<>>;

Error wrong_type(const char* wanted) { return Error{EINVAL, std::string("must be ") + wanted}; }

template <typename Set>
Take text(Set set) {
  return [set](const toml::node& node) -> Status {
    const auto value = node.value_exact<std::string>();
    return value ? set(*value) : Status(wrong_type("a string"));
  };
}

template <typename Set>
Take integer(Set set) {
  return [set](const toml::node& node) -> Status {
    const auto value = node.value_exact<std::int64_t>();
    return value ? set(*value) : Status(wrong_type("a whole number"));
  };
}

// A string, or an array of them.
template <typename Set>
Take texts(Set set) {
  return [set](const toml::node& node) -> Status {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return text(set)(node);
    }
    for (const toml::node& element : *array) {
      if (Status status = text(set)(element); !status) {
        return status;
      }
    }
    return ok();
  };
}

// [dcqcn]: names of parameters and numbers. *wrong: as for read_limits().
Status read_dcqcn(const toml::node& node, DaemonOptions* options, const toml::node** wrong) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    return wrong_type("a table");
  }
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    const auto set = [&](std::int64_t number) { return value::set_dcqcn(name, number, options); };
    if (Status status = integer(set)(value); !status) {
      *wrong = &value;
      return Error{EINVAL, name + ": " + status.error().message};
    }
  }
  return ok();
}

class File {
 public:
  File(std::string path, DaemonOptions* options) : path_(std::move(path)), options_(*options) {}

  Status read(const toml::table& table);

 private:
  // Calls the handler of each key of the table; `place` is the prefix of keys in errors. (A copy of
  // a table has no line numbers, so keys that are read elsewhere stay in it, with a handler that
  // does nothing.)
  Status apply(const toml::table& table, const Keys& keys, const std::string& place);
  std::string advice(std::string name, const Keys& keys);
  Status read_ports(const toml::array& ports);
  static Keys port_keys(DaemonPort* port);
  Keys daemon_keys();

  std::string path_;
  DaemonOptions& options_;
  const toml::node* wrong_ = nullptr;  // a value within the table of a key that failed
};

// For a key that isn't one of `keys`. After [[port]] everything belongs to that port, which who
// adds a line at the file's end doesn't expect.
std::string File::advice(std::string name, const Keys& keys) {
  std::replace(name.begin(), name.end(), '_', '-');
  if (keys.contains(name)) {
    return "; " + name + " is one";
  }
  return daemon_keys().contains(name)
             ? "; " + name + " is the daemon's, so it stands above the first [[port]]"
             : "";
}

Status File::apply(const toml::table& table, const Keys& keys, const std::string& place) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto where = [&](const toml::node& at) {
      return path_ + ", line " + std::to_string(at.source().begin.line) + ": " + place + name;
    };
    const auto found = keys.find(name);
    if (found == keys.end()) {
      return Error{EINVAL, where(node) + ": there is no such key" + advice(name, keys)};
    }
    if (Status status = found->second(node); !status) {
      return Error{status.error().code,
                   where(wrong_ != nullptr ? *wrong_ : node) + ": " + status.error().message};
    }
  }
  return ok();
}

Keys File::port_keys(DaemonPort* port) {
  return {
      {"port", text([port](const std::string& value) {
         port->spec = value;
         return ok();
       })},
      {"ip", texts([port](const std::string& value) { return value::add_address(value, port); })},
      {"route", texts([port](const std::string& value) { return value::add_route(value, port); })},
      {"mtu", integer([port](std::int64_t value) { return value::set_mtu(value, port); })},
      {"interface",
       text([port](const std::string& value) { return value::set_interface(value, port); })},
      {"faults", text([port](const std::string& value) { return value::set_faults(value, port); })},
  };
}

Keys File::daemon_keys() {
  DaemonOptions* options = &options_;
  const auto set = [](std::string* target) {
    return text([target](const std::string& value) {
      *target = value;
      return ok();
    });
  };
  return {
      {"socket", set(&options->socket)},
      {"pid-file", set(&options->pid_file)},
      {"socket-mode",
       text([options](const std::string& v) { return value::set_socket_mode(v, options); })},
      {"workers", integer([options](std::int64_t v) { return value::set_workers(v, options); })},
      {"idle", text([options](const std::string& v) { return value::set_idle(v, options); })},
      {"recovery",
       text([options](const std::string& v) { return value::set_recovery(v, options); })},
      {"direct", text([options](const std::string& v) { return value::set_direct(v, options); })},
      {"latency", text([options](const std::string& v) { return value::set_latency(v, options); })},
      {"odp-resident-limit",
       integer([options](std::int64_t v) { return value::set_resident_limit(v, options); })},
      {"odp-session-resident-limit", integer([options](std::int64_t v) {
         return value::set_session_resident_limit(v, options);
       })},
      {"congestion",
       text([options](const std::string& v) { return value::set_congestion(v, options); })},
      {"dcqcn",
       [this, options](const toml::node& node) { return read_dcqcn(node, options, &wrong_); }},
      {"limits",
       [this, options](const toml::node& node) {
         return read_limits(node, options->known_users, &options->limits, &wrong_);
       }},
      {"cnp-interval",
       integer([options](std::int64_t v) { return value::set_cnp_interval(v, options); })},
      {"cnp-dscp", integer([options](std::int64_t v) { return value::set_cnp_dscp(v, options); })},
      {"log-level",
       text([options](const std::string& v) { return value::set_log_level(v, options); })},
      {"metrics", text([options](const std::string& v) { return value::set_metrics(v, options); })},
      {"seccomp",
       text([options](const std::string& v) { return value::set_call_filter(v, options); })},
      {"vendor-id",
       integer([options](std::int64_t v) { return value::set_vendor_id(v, options); })},
      {"vendor-part-id",
       integer([options](std::int64_t v) { return value::set_vendor_part_id(v, options); })},
      {"telemetry",
       [options](const toml::node& node) -> Status {
         const auto value = node.value_exact<bool>();
         options->telemetry = value.value_or(false);
         return value ? ok() : Status(wrong_type("true or false"));
       }},
      {"eal", texts([options](const std::string& value) {
         options->eal_arguments.push_back(value);
         return ok();
       })},
  };
}

Status File::read_ports(const toml::array& ports) {
  for (const toml::node& node : ports) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return Error{EINVAL, path_ + ", line " + std::to_string(node.source().begin.line) +
                               ": port: must be a string or [[port]] tables"};
    }
    DaemonPort& port = options_.ports.emplace_back();
    if (Status status = apply(*table, port_keys(&port), "port."); !status) {
      return status;
    }
    if (port.spec.empty()) {
      return Error{EINVAL, path_ + ", line " + std::to_string(node.source().begin.line) +
                               ": port.port: is missing"};
    }
  }
  return ok();
}

Status File::read(const toml::table& table) {
  DaemonPort only;
  Keys keys = daemon_keys();
  keys.merge(port_keys(&only));
  if (const toml::array* ports = table["port"].as_array(); ports != nullptr) {
    if (Status status = read_ports(*ports); !status) {
      return status;
    }
    keys["port"] = [](const toml::node&) { return ok(); };
  }
  if (Status status = apply(table, keys, ""); !status) {
    return status;
  }
  if (!only.spec.empty()) {
    options_.ports.push_back(only);
    return ok();
  }
  for (const auto& [key, node] : table) {
    if (const std::string name(key.str()); name != "port" && port_keys(&only).contains(name)) {
      return Error{EINVAL, path_ + ", line " + std::to_string(node.source().begin.line) + ": " +
                               name + ": stands at the top, but there is no port beside it"};
    }
  }
  return ok();
}

}  // namespace

Status read_config_file(const std::string& path, DaemonOptions* options) {
  // toml::parse_file() takes a folder for an empty file, and says of no file why it can't be read.
  std::ifstream file(path);
  file.peek();
  if (!file.is_open() || file.bad()) {
    Error failed = system_error(path.c_str());
    failed.message += failed.code == EACCES ? "; the daemon's user must be allowed to read it" : "";
    return failed;
  }
  file.clear();  // the end of an empty one
  try {
    return File(path, options).read(toml::parse(file, path));
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    return Error{EINVAL, path + (line != 0 ? ", line " + std::to_string(line) : "") + ": " +
                             std::string(error.description())};
  }
}

}  // namespace uroce::control
