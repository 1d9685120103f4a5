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
#include "control/start/option_table.h"

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

// The handler of an option's key; `repeats`: an array, too.
template <typename Target>
Take key_of(const Option<Target>& option, Target* target, bool repeats = false) {
  if (const auto* take = std::get_if<typename Option<Target>::SetText>(&option.set)) {
    const auto set = [take_text = *take, target](const std::string& value) {
      return take_text(value, target);
    };
    return repeats ? texts(set) : text(set);
  }
  if (const auto* take = std::get_if<typename Option<Target>::SetNumber>(&option.set)) {
    return integer(
        [take_number = *take, target](std::int64_t value) { return take_number(value, target); });
  }
  const auto member = std::get<typename Option<Target>::Switch>(option.set);
  return [member, target](const toml::node& node) -> Status {
    const auto value = node.value_exact<bool>();
    target->*member = value.value_or(false);
    return value ? ok() : Status(wrong_type("true or false"));
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
  Keys keys{{"port", text([port](const std::string& value) {
               port->spec = value;
               return ok();
             })}};
  for (const PortOption& option : port_options()) {
    keys[option.name] = key_of(option, port, option.repeats);
  }
  return keys;
}

Keys File::daemon_keys() {
  Keys keys{
      {"dcqcn", [this](const toml::node& node) { return read_dcqcn(node, &options_, &wrong_); }},
      {"limits",
       [this](const toml::node& node) {
         return read_limits(node, options_.known_users, &options_.limits, &wrong_);
       }},
      {"eal", texts([this](const std::string& value) {
         options_.eal_arguments.push_back(value);
         return ok();
       })},
  };
  for (const DaemonOption& option : daemon_options()) {
    keys[option.name] = key_of(option, &options_);
  }
  return keys;
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
