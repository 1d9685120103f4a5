#include "control/metrics/metrics_text.h"

#include <map>

#include "base/port_speed.h"
#include "control/metrics/metric_tables.h"
#include "control/metrics/metrics_latency.h"
#include "control/metrics/metrics_page.h"
#include "dataplane/wire/drop.h"

namespace uroce::control {
namespace {

using Json = nlohmann::ordered_json;
using Kind = MetricsPage::Kind;

template <std::size_t kCount>
double value_of(const PortSpeedCode (&codes)[kCount], const Json& code) {
  for (const PortSpeedCode& one : codes) {
    if (one.code == number(code)) {
      return one.value;
    }
  }
  return codes[0].value;
}

// A counter of the transport by its metric name and help text.
struct Transport {
  std::string_view member;
  std::string name, help;
};

std::vector<Transport> transport_counters() {
  std::vector<Transport> all = {
#define UROCE_QP_COUNTER(name, explanation) {#name, "uroce_" #name, explanation},
#define UROCE_PORT_COUNTER(name, explanation) {#name, "uroce_" #name, explanation},
#include "dataplane/qp/counters.def"
#undef UROCE_QP_COUNTER
#undef UROCE_PORT_COUNTER
  };
  for (Transport& one : all) {
    for (const MetricRow& row : kHardwareNames) {
      one.name = row.member == one.member ? row.name : one.name;
    }
    one.help[0] = static_cast<char>(one.help[0] >= 'a' && one.help[0] <= 'z' ? one.help[0] - 32
                                                                             : one.help[0]);
  }
  return all;
}

constexpr const char* kPort = "1";  // a card has one

void write_daemon(const Json& report, MetricsPage& page) {
  page.family(Kind::kGauge, "uroce_info", "The daemon, with its version");
  page.sample({{"version", text(member(report, "version"))}}, 1);
  page.family(Kind::kGauge, "uroce_stuck_threads", "Threads of the daemon that are stuck");
  page.sample({}, static_cast<double>(member(report, "stuck_threads").size()));
}

void write_devices(const Json& devices, const std::string& version, MetricsPage& page) {
  const auto each = [&](Kind kind, std::string_view name, std::string_view help,
                        const auto& value) {
    page.family(kind, name, help);
    for (const Json& device : devices) {
      page.sample({{"device", text(member(device, "name"))}, {"port", kPort}}, value(device));
    }
  };
  page.family(Kind::kGauge, "node_infiniband_info",
              "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.");
  for (const Json& device : devices) {
    page.sample({{"device", text(member(device, "name"))},
                 {"board_id", "uroce"},
                 {"firmware_version", version},
                 {"hca_type", "uroce"}},
                1);
  }
  each(Kind::kGauge, "node_infiniband_state_id",
       "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act "
       "defer)",
       [](const Json& device) { return number(member(member(device, "identity"), "state")); });
  each(Kind::kGauge, "node_infiniband_physical_state_id",
       "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: "
       "shift, 5: link up, 6: link error recover, 7: phytest)",
       [](const Json& device) { return number(member(member(device, "identity"), "phys_state")); });
  each(Kind::kGauge, "node_infiniband_rate_bytes_per_second", "Maximum signal transfer rate",
       [](const Json& device) {
         const Json& identity = member(device, "identity");
         constexpr double kBytesInUnit = 1e8 / 8;  // of 100 Mb/s
         return value_of(kLaneSpeeds, member(identity, "active_speed")) *
                value_of(kLanes, member(identity, "active_width")) * kBytesInUnit;
       });
  for (const MetricRow& row : kPortCounters) {
    each(Kind::kCounter, row.name, row.help,
         [&](const Json& device) { return number(member(device, row.member)) * row.factor; });
  }
  for (const Transport& one : transport_counters()) {
    each(Kind::kCounter, one.name, one.help, [&](const Json& device) {
      return number(member(member(device, "hw_counters"), one.member));
    });
  }
}

void write_workers(const Json& workers, MetricsPage& page) {
  for (const MetricRow& row : kWorkerCounters) {
    page.family(Kind::kCounter, row.name, row.help);
    for (const Json& worker : workers) {
      page.sample({{"worker", member(worker, "worker").dump()}},
                  number(member(worker, row.member)) * row.factor);
    }
  }
  page.family(Kind::kCounter, "uroce_dropped_frames", "Received frames that were dropped, and why");
  for (const DropText& drop : kDropTexts) {
    double dropped = 0;
    for (const Json& worker : workers) {
      dropped += number(member(member(worker, "drops"), drop.name));
    }
    if (&drop != &kDropTexts[0]) {  // "none"
      page.sample({{"reason", std::string(drop.name)}}, dropped);
    }
  }
}

// Whether the session has a device open: others only requested a report.
bool uses_card(const Json& session) { return !text(member(session, "device")).empty(); }

void write_sessions(const Json& sessions, MetricsPage& page) {
  double using_card = 0, events_lost = 0;
  std::map<std::string, double> states = {{"RESET", 0}, {"INIT", 0}, {"RTR", 0}, {"RTS", 0},
                                          {"SQD", 0},   {"SQE", 0},  {"ERR", 0}};
  for (const Json& session : sessions) {
    using_card += uses_card(session) ? 1 : 0;
    events_lost += number(member(session, "events_lost"));
    for (const Json& qp : member(session, "qps")) {
      states[text(member(qp, "state"))] += 1;
    }
  }
  page.family(Kind::kGauge, "uroce_sessions", "Devices that programs have open");
  page.sample({}, using_card);
  page.family(Kind::kGauge, "uroce_queue_pairs", "Queue pairs of all programs, by state");
  for (const auto& [state, count] : states) {
    page.sample({{"state", state}}, count);
  }
  for (const MetricRow& row : kObjects) {
    double count = 0;
    for (const Json& session : sessions) {
      count += number(member(session, row.member));
    }
    page.family(Kind::kGauge, row.name, row.help);
    page.sample({}, count);
  }
  page.family(Kind::kGauge, "uroce_events_lost",
              "Events lost because connected programs didn't fetch them in time");
  page.sample({}, events_lost);
}

void write_connections(const Json& connections, MetricsPage& page) {
  page.family(Kind::kGauge, "uroce_cm_ids", "Identifiers of librdmacm's programs");
  page.sample({}, number(member(connections, "ids")));
  page.family(Kind::kGauge, "uroce_cm_connections",
              "Connections that the connection manager holds");
  page.sample({}, static_cast<double>(member(connections, "connections").size()));
  page.family(Kind::kGauge, "uroce_cm_listeners", "Listeners of librdmacm's programs");
  page.sample({}, static_cast<double>(member(connections, "listeners").size()));
  page.family(Kind::kCounter, "uroce_cm_events",
              "What the connection manager did, by uroce cm's names");
  for (const auto& [name, value] : member(connections, "counters").items()) {
    if (value.is_number()) {
      page.sample({{"event", name}}, number(value));
    }
  }
}

void write_queue_pairs(const Json& sessions, MetricsPage& page) {
  for (const Transport& one : transport_counters()) {
    std::size_t listed = 0;
    bool begun = false;
    for (const Json& session : sessions) {
      for (const Json& qp : member(session, "qps")) {
        if (!member(qp, one.member).is_number() || listed++ >= kMetricQueuePairsMax) {
          continue;
        }
        if (!begun) {
          page.family(Kind::kCounter, "uroce_qp_" + std::string(one.member), one.help);
          begun = true;
        }
        page.sample({{"device", text(member(session, "device"))},
                     {"qpn", member(qp, "qpn").dump()},
                     {"command", text(member(session, "command"))}},
                    number(member(qp, one.member)));
      }
    }
  }
}

}  // namespace

std::string metrics_text(const Json& report, const MetricsQuery& query) {
  MetricsPage page(query.open_metrics);
  write_daemon(report, page);
  if (report.contains("complete") && !report["complete"].get<bool>()) {
    return page.end();  // a worker doesn't respond: counters would seem to have decreased
  }
  write_devices(member(report, "devices"), text(member(report, "version")), page);
  write_latencies(member(report, "devices"), page);
  write_workers(member(report, "workers"), page);
  write_fault_times(member(report, "workers"), page);
  write_sessions(member(report, "sessions"), page);
  write_connections(member(report, "connections"), page);
  if (query.queue_pairs) {
    write_queue_pairs(member(report, "sessions"), page);
    write_queue_pair_latencies(member(report, "sessions"), page);
  }
  return page.end();
}

}  // namespace uroce::control
