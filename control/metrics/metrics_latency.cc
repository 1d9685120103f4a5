#include "control/metrics/metrics_latency.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "control/metrics/metrics_text.h"
#include "dataplane/qp/latency/latencies.h"

namespace uroce::control {
namespace {

using LatencyJson = nlohmann::ordered_json;
using Labels = MetricsPage::Labels;
using Kind = MetricsPage::Kind;

constexpr double kSecondsInNanosecond = 1e-9;

// A metric family; `of`: the members of a report's `latency` that it shows, each with the label
// `operation` if there are several.
struct LatencyFamily {
  std::string_view name, help;
  LatencyKind first, last;
  [[nodiscard]] bool by_operation() const { return first != last; }
};
constexpr LatencyFamily kLatencyFamilies[] = {
    {"operation_seconds",
     "Time from the post of a work request to its completion, of a sample of them",
     LatencyKind::kSend, LatencyKind::kOther},
    {"queued_seconds", "Part of that time in which the work request wasn't begun",
     LatencyKind::kQueued, LatencyKind::kQueued},
    {"round_trip_seconds", "Time from a packet that asks for an answer to that answer",
     LatencyKind::kRoundTrip, LatencyKind::kRoundTrip},
};

Labels with(Labels labels, std::string_view label, std::string value) {
  labels.emplace_back(label, std::move(value));
  return labels;
}

// Kinds without samples have zeros, so that the first samples are visible as growth.
void write_histogram(const LatencyJson& histogram, const Labels& labels, MetricsPage& page) {
  const LatencyJson& up_to = member(histogram, "up_to");
  for (unsigned power = LatencyHistogram::kReportedMin; power <= LatencyHistogram::kPowerMax;
       ++power) {
    const std::size_t index = power - LatencyHistogram::kReportedMin;
    const double bound = static_cast<double>(Duration{1} << power) * kSecondsInNanosecond;
    page.sample(with(labels, "le", written(bound)), index < up_to.size() ? number(up_to[index]) : 0,
                "_bucket");
  }
  page.sample(with(labels, "le", "+Inf"), number(member(histogram, "count")), "_bucket");
  page.sample(labels, number(member(histogram, "sum_ns")) * kSecondsInNanosecond, "_sum");
  page.sample(labels, number(member(histogram, "count")), "_count");
}

// Calls each(name, labels) for everything that a family shows.
template <typename Each>
void for_each_of(const LatencyFamily& family, const Labels& labels, Each&& each) {
  for (auto of = static_cast<std::size_t>(family.first);
       of <= static_cast<std::size_t>(family.last); ++of) {
    const std::string_view name = kLatencyTexts[of].name;
    each(name, family.by_operation() ? with(labels, "operation", std::string(name)) : labels);
  }
}

void write_summary(const LatencyJson& summary, const Labels& labels, MetricsPage& page) {
  constexpr std::pair<const char*, const char*> kQuantiles[] = {
      {"p50_ns", "0.5"}, {"p99_ns", "0.99"}, {"p99_9_ns", "0.999"}, {"max_ns", "1"}};
  for (const auto& [name, quantile] : kQuantiles) {
    page.sample(with(labels, "quantile", quantile),
                number(member(summary, name)) * kSecondsInNanosecond);
  }
  page.sample(labels, number(member(summary, "count")), "_count");
}

// All samples of a queue pair in a family.
void write_summaries(const LatencyFamily& family, const LatencyJson& session, const LatencyJson& qp,
                     MetricsPage& page) {
  const Labels labels = {{"device", text(member(session, "device"))},
                         {"qpn", member(qp, "qpn").dump()},
                         {"command", text(member(session, "command"))}};
  for_each_of(family, labels, [&](std::string_view name, const Labels& its_labels) {
    const LatencyJson& summary = member(member(qp, "latency"), name);
    if (summary.is_object()) {
      write_summary(summary, its_labels, page);
    }
  });
}

}  // namespace

void write_latencies(const LatencyJson& devices, MetricsPage& page) {
  for (const LatencyFamily& family : kLatencyFamilies) {
    page.family(Kind::kHistogram, "uroce_" + std::string(family.name), family.help);
    for (const LatencyJson& device : devices) {
      for_each_of(family, {{"device", text(member(device, "name"))}, {"port", "1"}},
                  [&](std::string_view name, const Labels& labels) {
                    write_histogram(member(member(device, "latency"), name), labels, page);
                  });
    }
  }
}

void write_fault_times(const LatencyJson& workers, MetricsPage& page) {
  page.family(Kind::kHistogram, "uroce_worker_page_fault_seconds",
              "Time from a page fault to the turn in which its queue pair goes on");
  for (const LatencyJson& worker : workers) {
    write_histogram(member(worker, "page_fault_time"),
                    {{"worker", member(worker, "worker").dump()}}, page);
  }
}

void write_queue_pair_latencies(const LatencyJson& sessions, MetricsPage& page) {
  std::vector<std::pair<const LatencyJson*, const LatencyJson*>> listed;  // session, queue pair
  for (const LatencyJson& session : sessions) {
    for (const LatencyJson& qp : member(session, "qps")) {
      listed.emplace_back(&session, &qp);
    }
  }
  listed.resize(std::min(listed.size(), kMetricQueuePairsMax));
  for (const LatencyFamily& family : kLatencyFamilies) {
    page.family(Kind::kSummary, "uroce_qp_" + std::string(family.name), family.help);
    for (const auto& [session, qp] : listed) {
      write_summaries(family, *session, *qp, page);
    }
  }
}

}  // namespace uroce::control
