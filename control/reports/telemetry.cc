#include "control/reports/telemetry.h"

#include <rte_telemetry.h>
#include <rte_version.h>

#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "control/reports/status_client.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;

std::string& own_socket() {
  static std::string socket;
  return socket;
}

// The part of the report under `key`; null while the daemon is stopping.
Json report(const char* key) {
  const auto text = fetch_status(own_socket());
  const Json status = text ? Json::parse(*text, nullptr, false) : Json();
  return status.is_object() && status.contains(key) ? status[key] : Json();
}

void add(rte_tel_data* dict, const std::string& name, const Json& value);

// Telemetry has no nested arrays of dictionaries: their elements are named by index.
void add_members(rte_tel_data* dict, const Json& container) {
  if (container.is_array()) {
    std::size_t index = 0;
    for (const Json& element : container) {
      add(dict, std::to_string(index++), element);
    }
    return;
  }
  for (const auto& [name, value] : container.items()) {
    add(dict, name, value);
  }
}

void add_number(rte_tel_data* dict, const std::string& name, std::uint64_t number) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  rte_tel_data_add_dict_uint(dict, name.c_str(), number);
#else
  rte_tel_data_add_dict_u64(dict, name.c_str(), number);
#endif
}

void add(rte_tel_data* dict, const std::string& name, const Json& value) {
  if (value.is_structured()) {
    rte_tel_data* inner = rte_tel_data_alloc();
    if (inner != nullptr) {
      rte_tel_data_start_dict(inner);
      add_members(inner, value);
      rte_tel_data_add_dict_container(dict, name.c_str(), inner, 0);
    }
  } else if (value.is_number()) {
    add_number(dict, name, value.get<std::uint64_t>());
  } else if (value.is_string()) {
    rte_tel_data_add_dict_string(dict, name.c_str(), value.get<std::string>().c_str());
  }
}

int answer(rte_tel_data* data, const Json& container) {
  if (!container.is_structured()) {
    return -EAGAIN;
  }
  rte_tel_data_start_dict(data);
  add_members(data, container);
  return 0;
}

int devices(const char* /*command*/, const char* /*parameters*/, rte_tel_data* data) {
  return answer(data, report("devices"));
}

int workers(const char* /*command*/, const char* /*parameters*/, rte_tel_data* data) {
  return answer(data, report("workers"));
}

// Queue pairs have a separate command: telemetry's answers are short.
int sessions(const char* /*command*/, const char* /*parameters*/, rte_tel_data* data) {
  Json all = report("sessions");
  for (Json& session : all) {
    session["qps"] = session["qps"].size();
  }
  return answer(data, all);
}

int qps(const char* /*command*/, const char* parameters, rte_tel_data* data) {
  const std::string wanted = parameters != nullptr ? parameters : "";
  for (const Json& session : report("sessions")) {
    if (session["id"].dump() == wanted) {
      return answer(data, session["qps"]);
    }
  }
  return -EINVAL;
}

}  // namespace

Status register_telemetry(const std::string& socket) {
  own_socket() = socket;
  const bool registered =
      rte_telemetry_register_cmd("/uroce/devices", devices, "Devices, addresses, counters") == 0 &&
      rte_telemetry_register_cmd("/uroce/workers", workers, "Workers, drops by reason") == 0 &&
      rte_telemetry_register_cmd("/uroce/sessions", sessions, "Programs and their objects") == 0 &&
      rte_telemetry_register_cmd("/uroce/qps", qps, "Queue pairs. Parameter: a session's id") == 0;
  return registered ? ok() : Status(Error{ENOMEM, "DPDK's telemetry takes no more commands"});
}

}  // namespace uroce::control
