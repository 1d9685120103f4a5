#include "apps/report/page.h"

#include <algorithm>
#include <vector>

#include "apps/report/html.h"
#include "apps/report/plot.h"
#include "apps/report/rates.h"

namespace uroce::report {
namespace {

using Json = nlohmann::ordered_json;

// No colours of its own but the plots': the reader's browser knows whether it is dark around him.
constexpr const char* kStyle =
    ":root{color-scheme:light dark}"
    "body{font:14px/1.45 system-ui,sans-serif;max-width:1180px;margin:24px auto;padding:0 16px}"
    "h1{font-size:22px;margin:0}h2{font-size:17px;margin:28px 0 8px}"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:16px}"
    "figure{margin:0;padding:10px 12px;border:1px solid #8885;border-radius:6px}"
    "figcaption{font-weight:600}svg{width:100%;height:auto;display:block}"
    "svg text{font-size:11px;fill:currentColor;opacity:.75}.grid{stroke:#8884}"
    "polyline{fill:none;stroke-width:1.6;stroke-linejoin:round;"
    "stroke-linecap:round}"
    ".legend{margin:4px 0 0;font-size:12px}.legend span{margin-right:14px;white-space:nowrap}"
    ".legend i{display:inline-block;width:10px;height:10px;margin-right:5px;border-radius:2px}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px}"
    "th,td{padding:3px 14px 3px 0;text-align:left;border-bottom:1px solid #8884;vertical-align:top}"
    "th{vertical-align:bottom}td{white-space:nowrap}"
    "td.long{white-space:normal;overflow-wrap:anywhere;min-width:240px}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".PROBLEM{color:#d55e00;font-weight:600}.note{color:#a67c00;font-weight:600}.ok{color:#009e73}"
    "pre{overflow-x:auto;padding:10px;border:1px solid #8885;border-radius:6px;font-size:12px}"
    ".quiet{opacity:.7}";

const Json& list_of(const Json& object, const char* name) {
  static const Json nothing = Json::array();
  return object.is_object() && object.contains(name) && object[name].is_array() ? object[name]
                                                                                : nothing;
}

std::string heading(const std::string& text) { return "<h2>" + escaped(text) + "</h2>\n"; }

std::string quiet(const std::string& text) {
  return "<p class=\"quiet\">" + escaped(text) + "</p>\n";
}

// One row for each object of the list, with these members.
std::string members_table(const Json& list, const std::vector<const char*>& members) {
  const Row head(members.begin(), members.end());
  std::vector<Row> rows;
  for (const Json& one : list) {
    Row& row = rows.emplace_back();
    for (const char* const member : members) {
      row.push_back(plain(one, member));
    }
    if (rows.size() == kPageRowsMax) {
      break;
    }
  }
  return rows.empty()
             ? quiet("none")
             : table(head, rows) +
                   (list.size() > rows.size()
                        ? quiet("and " + std::to_string(list.size() - rows.size()) + " more")
                        : std::string());
}

std::string findings(const Json& gathered) {
  std::string out = "<div class=\"wide\"><table>\n";
  for (const Json& finding : list_of(gathered, "findings")) {
    const std::string weight = escaped(plain(finding, "weight"));
    out += "<tr><td class=\"" + weight + "\">" + weight + "</td><td>" +
           escaped(plain(finding, "about")) + "</td><td class=\"long\">" +
           escaped(plain(finding, "sentence")) + "</td></tr>\n";
  }
  return heading("Checks (uroce doctor)") + out + "</table></div>\n";
}

struct Curve {
  const char* name;
  const char* counter;
};

Plot of_devices(const Rates& rates, const char* title, const char* unit,
                const std::vector<Curve>& curves) {
  Plot plot{.title = title, .unit = unit, .lines = {}, .top = 0};
  for (std::size_t device = 0; device < rates.devices().size(); ++device) {
    const std::string prefix = rates.devices().size() > 1 ? rates.devices()[device] + " " : "";
    for (const Curve& curve : curves) {
      plot.lines.push_back(
          {.name = prefix + curve.name, .points = rates.of_device(device, curve.counter)});
    }
  }
  return plot;
}

Plot of_daemon(const Rates& rates, const char* title, const char* unit,
               const std::vector<Curve>& curves) {
  Plot plot{.title = title, .unit = unit, .lines = {}, .top = 0};
  for (const Curve& curve : curves) {
    plot.lines.push_back({.name = curve.name, .points = rates.of_daemon(curve.counter)});
  }
  return plot;
}

// One for each of what was timed at all.
std::vector<Plot> latency_plots(const Rates& rates) {
  std::vector<Plot> all;
  for (const std::string& of : rates.timed()) {
    std::string name = of;
    std::replace(name.begin(), name.end(), '_', ' ');
    Plot plot{.title = "How long it took: " + name, .unit = "us", .lines = {}, .top = 0};
    for (std::size_t device = 0; device < rates.devices().size(); ++device) {
      const std::string prefix = rates.devices().size() > 1 ? rates.devices()[device] + " " : "";
      for (const char* const percentile : {"p50", "p99"}) {
        plot.lines.push_back(
            {.name = prefix + percentile, .points = rates.latency(device, of, percentile)});
      }
    }
    if (!is_flat(plot)) {
      all.push_back(std::move(plot));
    }
  }
  return all;
}

std::string plots(const Json& gathered) {
  const Rates rates(gathered.value("history", Json()));
  if (rates.samples() < 2) {
    return heading("Over time") + quiet("nothing has moved yet, so there is nothing to plot");
  }
  const std::vector<Plot> all{
      of_devices(
          rates, "Bytes", "B/s",
          {{"sent", "tx_bytes"}, {"received", "rx_bytes"}, {"without frames", "direct_bytes"}}),
      of_devices(rates, "Frames", "1/s", {{"sent", "tx_frames"}, {"received", "rx_frames"}}),
      of_devices(rates, "Sent again, and why", "1/s",
                 {{"sent again", "requests_resent"},
                  {"NAKs for a gap", "packet_seq_err"},
                  {"timeouts", "local_ack_timeout_err"},
                  {"receiver not ready", "rnr_nak_retry_err"}}),
      of_devices(rates, "Gaps in what was received", "1/s",
                 {{"gaps", "out_of_sequence"}, {"missed by the port", "rx_missed"}}),
      of_devices(rates, "Congestion", "1/s",
                 {{"marked frames", "np_ecn_marked_roce_packets"},
                  {"notifications sent", "np_cnp_sent"},
                  {"notifications heeded", "rp_cnp_handled"}}),
      of_daemon(rates, "Drops", "1/s", {{"frames dropped", "drops"}}),
      of_daemon(rates, "Page faults", "1/s",
                {{"raised", "page_faults"},
                 {"populated at once", "page_faults_at_once"},
                 {"deferred", "page_faults_deferred"}}),
      Plot{.title = "Workers",
           .unit = "share of turns with something to do",
           .lines = {{.name = "busy", .points = rates.share("busy_turns", "turns")}},
           .top = 1},
      Plot{.title = "Queue pairs",
           .unit = "how many there are",
           .lines = {{.name = "queue pairs", .points = rates.level("queue_pairs")}},
           .top = 0}};
  std::string out = heading("Over time") +
                    quiet(std::to_string(rates.samples()) + " samples in " +
                          std::to_string(static_cast<long long>(rates.seconds())) +
                          " s; none is taken while nothing moves") +
                    "<div class=\"plots\">\n";
  std::string still;
  for (const Plot& plot : all) {
    if (is_flat(plot)) {
      still += (still.empty() ? "" : ", ") + plot.title;
    } else {
      out += svg(plot);
    }
  }
  const std::vector<Plot> latencies = latency_plots(rates);
  for (const Plot& plot : latencies) {
    out += svg(plot);
  }
  return out + "</div>\n" + (still.empty() ? "" : quiet("Always 0: " + still)) +
         (latencies.empty() ? ""
                            : quiet("How long it took: percentiles of the messages that were timed "
                                    "between two samples; gaps where none was"));
}

std::string ports(const Json& status) {
  std::string out =
      heading("Ports") +
      members_table(list_of(status, "devices"),
                    {"name", "port", "link", "trouble", "mac", "mtu", "path_mtu", "speed_mbps",
                     "rx_frames", "tx_frames", "rx_missed", "tx_refused", "tx_failed"});
  for (const Json& device : list_of(status, "devices")) {
    std::string addresses;
    for (const Json& address : list_of(device, "addresses")) {
      addresses += (addresses.empty() ? "" : ", ") + plain(address, "index") + ": " +
                   plain(address, "address");
    }
    out += quiet(plain(device, "name") + ", GID indexes: " + addresses);
  }
  return out + heading("Workers") +
         members_table(
             list_of(status, "workers"),
             {"worker", "turns", "idle_turns", "sleeps", "rx_frames", "handed_over", "tx_frames",
              "tx_lost", "absences", "absent_us", "stalls", "page_faults", "drops"});
}

// Of a histogram's summary, in microseconds.
void add_latency(const std::string& where, const std::string& what, const Json& summary,
                 std::vector<Row>* rows) {
  Row row{where, what, plain(summary, "count")};
  for (const char* const member : {"p50_ns", "p99_ns", "p99_9_ns", "max_ns"}) {
    const bool there =
        summary.is_object() && summary.contains(member) && summary[member].is_number();
    row.push_back(there ? microseconds(summary[member].get<double>()) : "");
  }
  rows->push_back(std::move(row));
}

// Where the daemon measures them.
std::string latencies(const Json& status) {
  std::vector<Row> rows;
  for (const Json& device : list_of(status, "devices")) {
    const Json all = device.is_object() ? device.value("latency", Json::object()) : Json::object();
    for (const auto& [what, summary] : all.items()) {
      add_latency(plain(device, "name"), what, summary, &rows);
    }
  }
  for (const Json& worker : list_of(status, "workers")) {
    const Json faults = worker.is_object() ? worker.value("page_fault_time", Json()) : Json();
    if (faults.is_object() && plain(faults, "count") != "0") {
      add_latency("worker " + plain(worker, "worker"), "page fault", faults, &rows);
    }
  }
  return rows.empty()
             ? ""
             : heading("How long messages take, in microseconds, since the daemon began") +
                   table({"where", "what", "samples", "p50", "p99", "p99.9", "most"}, rows);
}

std::string programs(const Json& status) {
  Json queue_pairs = Json::array();
  for (const Json& session : list_of(status, "sessions")) {
    for (const Json& qp : list_of(session, "qps")) {
      Json row = qp;
      row["program"] = session.value("command", Json());
      queue_pairs.push_back(std::move(row));
    }
  }
  return heading("Programs") +
         members_table(list_of(status, "sessions"), {"id", "pid", "uid", "command", "device", "pds",
                                                     "regions", "cqs", "srqs", "ahs"}) +
         heading("Queue pairs") +
         members_table(queue_pairs,
                       {"qpn", "program", "type", "state", "remote_qpn", "remote_gid",
                        "requests_sent", "requests_resent", "bytes_sent", "bytes_received",
                        "local_ack_timeout_err", "rnr_nak_retry_err", "rate_mbps"});
}

std::string limits(const Json& gathered) {
  std::string out;
  const Json users = gathered.value("limits", Json());
  for (const Json& user : list_of(users, "users")) {
    out += heading("Limits of user " + plain(user, "uid")) +
           members_table(list_of(user, "limits"), {"name", "used", "allowed", "maximum"});
  }
  return out;
}

// The newest first.
std::string errors(const Json& gathered) {
  Json newest = list_of(gathered.value("errors", Json()), "errors");
  std::reverse(newest.begin(), newest.end());
  return heading("Errors, the newest first") +
         members_table(newest, {"number", "program", "pid", "text"});
}

std::string configuration(const Json& gathered) {
  std::string words;
  for (const Json& word : list_of(gathered, "command_line")) {
    words += (words.empty() ? "" : " ") + plain(word);
  }
  std::string out =
      heading("Configuration") + (words.empty() ? quiet("the daemon's command line can't be read")
                                                : "<pre>" + escaped(words) + "</pre>\n");
  const std::string file = plain(gathered, "configuration");
  return out + (file.empty() ? "" : "<pre>" + escaped(file) + "</pre>\n");
}

std::string raw(const Json& status) {
  std::string text = status.dump(2, ' ', true, Json::error_handler_t::replace);  // cut anywhere
  const bool cut = text.size() > kRawBytesMax;
  text.resize(std::min(text.size(), kRawBytesMax));
  return "<details><summary>The status as it came</summary><pre>" + escaped(text) + "</pre>" +
         (cut ? quiet("cut off here") : "") + "</details>\n";
}

}  // namespace

std::string page(const Json& gathered) {
  const Json status = gathered.value("status", Json());
  const std::string version = plain(status, "version");
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width\">\n<title>uroce report</title>\n"
         "<style>" +
         std::string(kStyle) + "</style></head><body>\n<h1>uroce report</h1>\n" +
         quiet(plain(gathered, "made") + ", " + plain(gathered, "tool") +
               (version.empty() ? ", no daemon" : ", uroced " + version) + ", " +
               plain(gathered, "kernel")) +
         findings(gathered) + plots(gathered) + latencies(status) + ports(status) +
         programs(status) + errors(gathered) + limits(gathered) + configuration(gathered) +
         raw(status) + "</body></html>\n";
}

}  // namespace uroce::report
