#include "control/start/limits_table.h"

#include <pwd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string>

namespace uroce::control {
namespace {

// The user of this name or number.
Result<uid_t> find_user(const std::string& name, const KnownUsers& known) {
  uid_t uid = 0;
  const char* const end = name.data() + name.size();
  if (const auto [stop, failure] = std::from_chars(name.data(), end, uid);
      failure == std::errc{} && stop == end) {
    return uid;
  }
  if (const auto found = known.find(name); found != known.end()) {
    return found->second;
  }
  std::array<char, 4096> room;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(name.c_str(), &entry, room.data(), room.size(), &found) != 0 ||
      found == nullptr) {
    return Error{kUserUnknown, "there is no user " + name};
  }
  return found->pw_uid;
}

std::string known_limits() {
  std::string all;
  for (const auto& limit : kLimits) {
    all += (all.empty() ? "" : ", ") + std::string(limit.name);
  }
  return all;
}

Status read_one(const std::string& name, const toml::node& node, ConfiguredLimits::Some* limits) {
  const auto limit = limit_named(name);
  if (!limit) {
    return Error{EINVAL, name + ": unknown limit; the known limits are " + known_limits()};
  }
  const auto value = node.value_exact<std::int64_t>();
  if (!value || *value < 0) {
    return Error{EINVAL, name + ": must be a whole number, at least 0"};
  }
  (*limits)[*limit] = static_cast<std::uint64_t>(*value);
  return ok();
}

Status read_user(const std::string& name, const toml::table& table, const KnownUsers& known,
                 ConfiguredLimits* limits, const toml::node** wrong) {
  const auto uid = find_user(name, known);
  if (!uid) {
    return uid.error();
  }
  ConfiguredLimits::Named& user = limits->of_user[*uid];
  user.name = name;
  for (const auto& [key, node] : table) {
    if (Status status = read_one(std::string(key.str()), node, &user.limits); !status) {
      *wrong = &node;
      return Error{EINVAL, name + "." + status.error().message};
    }
  }
  return ok();
}

}  // namespace

Status read_limits(const toml::node& node, const KnownUsers& known, ConfiguredLimits* limits,
                   const toml::node** wrong) {
  const toml::table* const table = node.as_table();
  if (table == nullptr) {
    return Error{EINVAL, "must be a table"};
  }
  for (const auto& [key, value] : *table) {
    const std::string name(key.str());
    const toml::table* const user = value.as_table();
    *wrong = &value;
    Status status = user != nullptr ? read_user(name, *user, known, limits, wrong)
                                    : read_one(name, value, &limits->of_everybody);
    if (!status) {
      return status;
    }
  }
  *wrong = nullptr;
  return ok();
}

}  // namespace uroce::control
