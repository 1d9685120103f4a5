#include "apps/top/view.h"

#include <algorithm>

#include "apps/top/cells.h"
#include "apps/top/latency.h"
#include "apps/top/users.h"
#include "base/short_number.h"

namespace uroce::top {
namespace {

constexpr const char* kPortRow = "%-10s %-5s %9s %9s %9s %9s %8s %8s %8s %8s";
constexpr const char* kWorkerRow = "%-10s %6s %9s %9s %8s %8s %8s";
constexpr const char* kProgramRow = "%-7s %-7s %-6s %-15s %6s %8s %9s %9s";
constexpr const char* kQpRow =
    "%-9s %-3s %-5s %-15s %6s %9s %9s %9s %8s %8s %8s %8s %8s %8s %8s  %s";

void add_ports(const Json& before, const Json& now, double seconds, Lines& lines) {
  lines.push_back(row(kPortRow, cell("PORT"), cell("LINK"), cell("RX B/s"), cell("TX B/s"),
                      cell("RX/s"), cell("TX/s"), cell("AGAIN/s"), cell("MISSED/s"),
                      cell("MARKED/s"), cell("RNR/s")));
  const PreviousReport earlier(member(before, "devices"), "name");
  for (const Json& port : member(now, "devices")) {
    const Json& old = earlier.of(port);
    const auto its = [&](const char* name) { return short_number(rate(old, port, name, seconds)); };
    const auto hardware = [&](const char* name) {
      return short_number(
          rate(member(old, "hw_counters"), member(port, "hw_counters"), name, seconds));
    };
    lines.push_back(row(kPortRow, text(port, "name"), text(port, "link"), its("rx_bytes"),
                        its("tx_bytes"), its("rx_frames"), its("tx_frames"),
                        hardware("requests_resent"), its("rx_missed"),
                        hardware("np_ecn_marked_roce_packets"), hardware("rnr_nak_retry_err")));
  }
}

// The part of its turns in which a worker had something to do.
std::string busy(const Json& before, const Json& now, double seconds) {
  const double turns = rate(before, now, "turns", seconds);
  const double idle = rate(before, now, "idle_turns", seconds);
  return std::to_string(static_cast<int>(turns > 0 ? 100 * (1 - std::min(1.0, idle / turns)) : 0)) +
         " %";
}

void add_workers(const Json& before, const Json& now, double seconds, Lines& lines) {
  lines.push_back(row(kWorkerRow, cell("WORKER"), cell("BUSY"), cell("RX/s"), cell("TX/s"),
                      cell("DROPS/s"), cell("FAULTS/s"), cell("AWAY ms/s")));
  const PreviousReport earlier(member(before, "workers"), "worker");
  for (const Json& worker : member(now, "workers")) {
    const Json& old = earlier.of(worker);
    double drops = 0;
    const Json& reasons = member(worker, "drops");
    for (const auto& [reason, count] : reasons.items()) {
      const double was = number(member(old, "drops"), reason.c_str());
      drops += old.is_null() || !count.is_number() ? 0 : count.get<double>() - was;
    }
    const auto its = [&](const char* name, double factor) {
      return short_number(factor * rate(old, worker, name, seconds));
    };
    lines.push_back(row(kWorkerRow, text(worker, "worker"), busy(old, worker, seconds),
                        its("rx_frames", 1), its("tx_frames", 1),
                        short_number(seconds > 0 ? std::max(0.0, drops) / seconds : 0),
                        its("page_faults", 1), its("absent_us", 1e-3)));
  }
}

void add_programs(const Json& before, const Json& now, double seconds, std::size_t rows_max,
                  Lines& lines) {
  lines.push_back(row(kProgramRow, cell("SESSION"), cell("PID"), cell("USER"), cell("PROGRAM"),
                      cell("QPS"), cell("REGIONS"), cell("TX B/s"), cell("RX B/s")));
  const PreviousReport sessions(member(before, "sessions"), "id");
  std::vector<Ranked> rows;
  for (const Json& session : member(now, "sessions")) {
    if (text(session, "device").empty()) {
      continue;  // ourselves
    }
    const PreviousReport earlier(member(sessions.of(session), "qps"), "qpn");
    double sent = 0, received = 0;
    for (const Json& qp : member(session, "qps")) {
      sent += rate_sent(earlier.of(qp), qp, seconds);
      received += rate(earlier.of(qp), qp, "bytes_received", seconds);
    }
    rows.push_back(
        {sent + received,
         row(kProgramRow, text(session, "id"), text(session, "pid"), text(session, "uid"),
             text(session, "command"), std::to_string(member(session, "qps").size()),
             text(session, "regions"), short_number(sent), short_number(received))});
  }
  add_ranked(std::move(rows), rows_max, "other programs", lines);
}

// Bytes a second that congestion control leaves a queue pair; 0: as many as there are.
double limit_of(const Json& qp) {
  constexpr double kBytesOfMegabit = 1e6 / 8;
  return number(qp, "rate_mbps") * kBytesOfMegabit;
}

double rank_of(const Json& before, const Json& qp, SortBy sort, double seconds) {
  switch (sort) {
    case SortBy::kReceived:
      return rate(before, qp, "bytes_received", seconds);
    case SortBy::kResent:
      return rate(before, qp, "requests_resent", seconds);
    case SortBy::kRnr:
      return rate(before, qp, "rnr_nak_retry_err", seconds);
    case SortBy::kMarked:
      return rate(before, qp, "np_ecn_marked_roce_packets", seconds);
    case SortBy::kNumber:
      return -number(qp, "qpn");
    case SortBy::kOutstanding:
      return number(qp, "outstanding");
    case SortBy::kLatency:
      return usual_latency(qp, "p99_ns");
    case SortBy::kLimit:
      return limit_of(qp) > 0 ? 1 / limit_of(qp) : 0;
    default:
      return rate_sent(before, qp, seconds);
  }
}

// Empty: none of its messages was timed.
std::string usual_time(const Json& qp, const char* percentile) {
  const double took = usual_latency(qp, percentile);
  return took > 0 ? short_time(took) : "";
}

void add_queue_pairs(const Json& before, const Json& now, double seconds, const ViewOptions& shown,
                     std::size_t rows_max, Lines& lines) {
  lines.push_back(row(kQpRow, cell("QP"), cell("TYP"), cell("STATE"), cell("PROGRAM"), cell("OUT"),
                      cell("TX B/s"), cell("RX B/s"), cell("LIMIT B/s"), cell("50 %"), cell("99 %"),
                      cell("REQ/s"), cell("AGAIN/s"), cell("PROBES/s"), cell("RNR/s"),
                      cell("MARKED/s"), cell("TO")));
  const PreviousReport sessions(member(before, "sessions"), "id");
  std::vector<Ranked> rows;
  for (const Json& session : member(now, "sessions")) {
    const PreviousReport earlier(member(sessions.of(session), "qps"), "qpn");
    for (const Json& qp : member(session, "qps")) {
      const Json& old = earlier.of(qp);
      const auto its = [&](const char* name) { return short_number(rate(old, qp, name, seconds)); };
      rows.push_back(
          {rank_of(old, qp, shown.sort, seconds),
           row(kQpRow, text(qp, "qpn"), text(qp, "type"), text(qp, "state"),
               text(session, "command"), short_number(number(qp, "outstanding")),
               short_number(rate_sent(old, qp, seconds)), its("bytes_received"),
               limit_of(qp) > 0 ? short_number(limit_of(qp)) : "", usual_time(qp, "p50_ns"),
               usual_time(qp, "p99_ns"), its("requests_sent"), its("requests_resent"),
               its("tail_probes"), its("rnr_nak_retry_err"), its("np_ecn_marked_roce_packets"),
               text(qp, "remote_gid") + " QP " + text(qp, "remote_qpn"))});
    }
  }
  add_ranked(std::move(rows), rows_max, "other queue pairs", lines);
}

}  // namespace

const char* name(SortBy sort) {
  constexpr const char* kNames[kSortCount] = {"sent",   "received",    "again",   "rnr",  "marked",
                                              "number", "outstanding", "latency", "limit"};
  return kNames[static_cast<std::size_t>(sort)];
}

std::vector<std::string> view_lines(const Json& before, const Json& now, double seconds,
                                    const ViewOptions& shown, std::size_t rows_max) {
  Lines lines = {"uroced " + text(now, "version") + ", pid " + text(now, "pid") +
                 "; queue pairs by: " + name(shown.sort)};
  for (const Json& thread : member(now, "stuck_threads")) {
    lines.push_back("STUCK for " + text(thread, "seconds") + " s: " + text(thread, "name"));
  }
  if (shown.ports) {
    add_ports(before, now, seconds, lines);
  }
  if (shown.workers) {
    add_workers(before, now, seconds, lines);
  }
  if (shown.latency) {
    add_latency(now, lines);
  }
  if (shown.users) {
    add_users(before, now, seconds, rows_max, lines);
  }
  if (shown.programs) {
    add_programs(before, now, seconds, rows_max, lines);
  }
  if (shown.queue_pairs) {
    add_queue_pairs(before, now, seconds, shown, rows_max, lines);
  }
  return lines;
}

}  // namespace uroce::top
