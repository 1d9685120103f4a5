#include "apps/tree/netlink_resources.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_cm.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "abi/names.h"
#include "dataplane/qp/counters.h"

namespace uroce {
namespace {

using Json = nlohmann::ordered_json;

// As enum ib_qp_type of the kernel, which isn't verbs'.
struct QpKind {
  const char* name;  // in the daemon's report
  std::uint8_t type;
  bool connected;
};
constexpr QpKind kQpKinds[] = {{"RC", 2, true},
                               {"UC", 3, true},
                               {"UD", 4, false},
                               {"XRC send", 9, true},
                               {"XRC receive", 10, true}};

std::uint8_t state_number(const std::string& name) {
  const auto found = std::find(abi::kStateNames.begin(), abi::kStateNames.end(), name);
  return static_cast<std::uint8_t>(found - abi::kStateNames.begin());
}

std::uint32_t number(const Json& object, const char* key) {
  return object.at(key).get<std::uint32_t>();
}

void write_qp(const Json& qp, std::uint32_t pid, NetlinkMessage* message) {
  const auto name = qp.at("type").get<std::string>();
  const auto* kind = std::find_if(std::begin(kQpKinds), std::end(kQpKinds),
                                  [&](const QpKind& one) { return name == one.name; });
  if (kind == std::end(kQpKinds)) {
    return;
  }
  message->number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);
  message->number32(RDMA_NLDEV_ATTR_RES_LQPN, number(qp, "qpn"));
  if (kind->connected) {
    message->number32(RDMA_NLDEV_ATTR_RES_RQPN, number(qp, "remote_qpn"));
    message->number32(RDMA_NLDEV_ATTR_RES_RQ_PSN, number(qp, "rq_psn"));
    message->number8(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 0);  // there is only one path
  }
  message->number32(RDMA_NLDEV_ATTR_RES_SQ_PSN, number(qp, "sq_psn"));
  message->number8(RDMA_NLDEV_ATTR_RES_TYPE, kind->type);
  message->number8(RDMA_NLDEV_ATTR_RES_STATE, state_number(qp.at("state").get<std::string>()));
  message->number32(RDMA_NLDEV_ATTR_RES_PID, pid);
}

// The sessions that have the card open.
std::vector<const Json*> sessions_of(const CardView& card, const Json& report) {
  std::vector<const Json*> sessions;
  for (const Json& session : report.at("sessions")) {
    if (session.at("device").get<std::string>() == card.name) {
      sessions.push_back(&session);
    }
  }
  return sessions;
}

using WriteQp = void (*)(const Json& qp, std::uint32_t pid, NetlinkMessage* message);

std::vector<ResourceEntry> of_queue_pairs(const CardView& card, const Json& report, WriteQp write) {
  std::vector<ResourceEntry> entries;
  for (const Json* session : sessions_of(card, report)) {
    const std::uint32_t pid = number(*session, "pid");
    for (const Json& qp : session->at("qps")) {
      entries.emplace_back([&qp, pid, write](NetlinkMessage* message) { write(qp, pid, message); });
    }
  }
  return entries;
}

std::vector<ResourceEntry> queue_pairs(const CardView& card, const Json& report) {
  return of_queue_pairs(card, report, write_qp);
}

// Of "10.0.0.1:7471" and "[fe80::1]:7471", which are the report's.
sockaddr_storage socket_address(const std::string& text) {
  sockaddr_storage storage{};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return storage;
  }
  const auto port =
      htons(static_cast<std::uint16_t>(std::strtoul(text.c_str() + colon + 1, nullptr, 10)));
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = port;
    std::memcpy(&storage, &four, sizeof(four));
  } else if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = port;
    std::memcpy(&storage, &six, sizeof(six));
  }
  return storage;
}

void write_address(std::uint16_t attribute, const std::string& text, NetlinkMessage* message) {
  const sockaddr_storage address = socket_address(text);
  if (address.ss_family != 0) {
    message->bytes(attribute, {reinterpret_cast<const char*>(&address), sizeof(address)});
  }
}

std::uint32_t port_space(const Json& object) {
  const auto name = object.value("port_space", std::string("tcp"));
  return name == "udp"     ? RDMA_PS_UDP
         : name == "ib"    ? RDMA_PS_IB
         : name == "ipoib" ? RDMA_PS_IPOIB
                           : RDMA_PS_TCP;
}

// Of enum rdma_cm_state. The ends of a connection are one state there.
constexpr std::uint8_t kConnect = 5, kDisconnect = 6, kListen = 8;

void write_listener(const Json& listener, NetlinkMessage* message) {
  const auto host = listener.at("address").get<std::string>();
  message->number32(RDMA_NLDEV_ATTR_RES_PS, port_space(listener));
  message->number8(RDMA_NLDEV_ATTR_RES_STATE, kListen);
  write_address(RDMA_NLDEV_ATTR_RES_SRC_ADDR, host, message);
  message->number32(RDMA_NLDEV_ATTR_RES_PID, number(listener, "pid"));
}

void write_connection(const Json& connection, NetlinkMessage* message) {
  const auto state = connection.at("state").get<std::string>();
  const bool ends = state.starts_with("dreq") || state == "timewait";
  message->number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);
  message->number32(RDMA_NLDEV_ATTR_RES_LQPN, number(connection, "qpn"));
  message->number8(RDMA_NLDEV_ATTR_RES_TYPE, kQpKinds[0].type);
  message->number32(RDMA_NLDEV_ATTR_RES_PS, port_space(connection));
  message->number8(RDMA_NLDEV_ATTR_RES_STATE, ends ? kDisconnect : kConnect);
  write_address(RDMA_NLDEV_ATTR_RES_SRC_ADDR, connection.at("local").get<std::string>(), message);
  write_address(RDMA_NLDEV_ATTR_RES_DST_ADDR, connection.at("remote").get<std::string>(), message);
  message->number32(RDMA_NLDEV_ATTR_RES_PID, number(connection, "pid"));
}

// Those of all cards, since who listens at every address does it at all of them.
std::vector<ResourceEntry> connections(const CardView& card, const Json& report) {
  std::vector<ResourceEntry> entries;
  if (card.index != 0) {
    return entries;
  }
  const Json& told = report.at("connections");
  for (const Json& one : told.at("listeners")) {
    entries.emplace_back([&one](NetlinkMessage* message) { write_listener(one, message); });
  }
  for (const Json& one : told.at("connections")) {
    entries.emplace_back([&one](NetlinkMessage* message) { write_connection(one, message); });
  }
  return entries;
}

// Writes what netlink says of one object of the report's `objects`.
using WriteObject = void (*)(const Json& object, NetlinkMessage* message);

std::vector<ResourceEntry> objects_of(const CardView& card, const Json& report, const char* kind,
                                      WriteObject write) {
  std::vector<ResourceEntry> entries;
  for (const Json* session : sessions_of(card, report)) {
    const std::uint32_t pid = number(*session, "pid");
    for (const Json& object : session->at("objects")) {
      if (object.at("kind") != kind) {
        continue;
      }
      entries.emplace_back([&object, pid, write](NetlinkMessage* message) {
        write(object, message);
        message->number32(RDMA_NLDEV_ATTR_RES_PID, pid);
      });
    }
  }
  return entries;
}

std::vector<ResourceEntry> protection_domains(const CardView& card, const Json& report) {
  return objects_of(card, report, "pd", [](const Json& pd, NetlinkMessage* message) {
    message->number32(RDMA_NLDEV_ATTR_RES_PDN, number(pd, "id"));
    message->number64(RDMA_NLDEV_ATTR_RES_USECNT, number(pd, "users"));
  });
}

std::vector<ResourceEntry> completion_queues(const CardView& card, const Json& report) {
  return objects_of(card, report, "cq", [](const Json& cq, NetlinkMessage* message) {
    message->number32(RDMA_NLDEV_ATTR_RES_CQN, number(cq, "id"));
    message->number32(RDMA_NLDEV_ATTR_RES_CQE, number(cq, "entries"));
    message->number64(RDMA_NLDEV_ATTR_RES_USECNT, number(cq, "users"));
  });
}

std::vector<ResourceEntry> memory_regions(const CardView& card, const Json& report) {
  return objects_of(card, report, "mr", [](const Json& region, NetlinkMessage* message) {
    message->number32(RDMA_NLDEV_ATTR_RES_MRN, number(region, "id"));
    message->number32(RDMA_NLDEV_ATTR_RES_PDN, number(region, "pd"));
    message->number64(RDMA_NLDEV_ATTR_RES_MRLEN, region.at("length").get<std::uint64_t>());
  });
}

// Each queue pair counts by itself, as if it had a counter of hardware's bound to it, which bears
// its number.
void write_counters(const Json& qp, std::uint32_t pid, NetlinkMessage* message) {
  message->number32(RDMA_NLDEV_ATTR_PORT_INDEX, CardView::kPort);
  message->number32(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, number(qp, "qpn"));
  message->number32(RDMA_NLDEV_ATTR_RES_PID, pid);
  const std::size_t bound = message->begin_nest(RDMA_NLDEV_ATTR_RES_QP);
  const std::size_t one = message->begin_nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY);
  message->number32(RDMA_NLDEV_ATTR_RES_LQPN, number(qp, "qpn"));
  message->end_nest(one);
  message->end_nest(bound);
  const std::size_t table = message->begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  for (const RoceCounter& counter : kRoceCounters) {
    if (!counter.of_port_only) {
      write_counter(counter.name, qp.at(std::string(counter.name)).get<std::uint64_t>(), message);
    }
  }
  message->end_nest(table);
}

std::vector<ResourceEntry> counters_of_queue_pairs(const CardView& card, const Json& report) {
  return of_queue_pairs(card, report, write_counters);
}

constexpr ResourceKind kCounters = {RDMA_NLDEV_CMD_STAT_GET, RDMA_NLDEV_ATTR_STAT_COUNTER,
                                    RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, counters_of_queue_pairs};
constexpr ResourceKind kKinds[] = {
    {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY, queue_pairs},
    {RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
     connections},
    {RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
     protection_domains},
    {RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
     completion_queues},
    {RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
     memory_regions},
};

}  // namespace

const ResourceKind* find_resource_kind(std::uint32_t command) {
  const auto* found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const ResourceKind& kind) { return kind.command == command; });
  return found != std::end(kKinds) ? found : nullptr;
}

const ResourceKind& counters_kind() { return kCounters; }

void write_counter(std::string_view name, std::uint64_t value, NetlinkMessage* message) {
  const std::size_t entry = message->begin_nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
  message->text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
  message->number64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
  message->end_nest(entry);
}

std::vector<std::pair<const char*, std::uint64_t>> resource_summary(const CardView& card,
                                                                    const Json& report) {
  constexpr const char* kCounted[][2] = {
      {"pd", "pds"}, {"cq", "cqs"}, {"mr", "regions"}, {"srq", "srqs"}};
  std::vector<std::pair<const char*, std::uint64_t>> summary;
  const auto sessions = sessions_of(card, report);
  for (const auto& [name, key] : kCounted) {
    std::uint64_t count = 0;
    for (const Json* session : sessions) {
      count += number(*session, key);
    }
    summary.emplace_back(name, count);
  }
  summary.emplace_back("qp", queue_pairs(card, report).size());
  summary.emplace_back("cm_id", connections(card, report).size());
  summary.emplace_back("ctx", sessions.size());
  return summary;
}

}  // namespace uroce
