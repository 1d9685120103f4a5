#pragma once

// The columns of a sample: counters of the daemon and of each device, and each device's latencies.

#include <cstdint>
#include <string_view>

#include "dataplane/engine/worker.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/counters.h"
#include "dataplane/qp/latency/latencies.h"

namespace uroce::control {

// Summed over all workers.
struct SampledWorkers {
  std::uint64_t turns = 0, busy_turns = 0, absent_us = 0, drops = 0;
  std::uint64_t page_faults = 0, page_faults_at_once = 0, page_faults_deferred = 0;
  std::uint64_t queue_pairs = 0, sessions = 0;  // gauges, not counters

  void add(const WorkerCounters& counters);
};

struct DaemonColumn {
  std::string_view name;
  std::uint64_t SampledWorkers::*member;
  bool is_counter = true;
};
inline constexpr DaemonColumn kDaemonColumns[] = {
    {"turns", &SampledWorkers::turns},
    {"busy_turns", &SampledWorkers::busy_turns},
    {"absent_us", &SampledWorkers::absent_us},
    {"drops", &SampledWorkers::drops},
    {"page_faults", &SampledWorkers::page_faults},
    {"page_faults_at_once", &SampledWorkers::page_faults_at_once},
    {"page_faults_deferred", &SampledWorkers::page_faults_deferred},
    {"queue_pairs", &SampledWorkers::queue_pairs, false},
    {"sessions", &SampledWorkers::sessions, false},
};

struct PortColumn {
  std::string_view name;
  std::uint64_t PortCounters::*member;
};
inline constexpr PortColumn kPortColumns[] = {
    {"rx_frames", &PortCounters::rx_frames}, {"rx_bytes", &PortCounters::rx_bytes},
    {"tx_frames", &PortCounters::tx_frames}, {"tx_bytes", &PortCounters::tx_bytes},
    {"rx_missed", &PortCounters::rx_missed},
};

// Follow those of the port.
struct RoceColumn {
  std::string_view name;
  std::uint64_t RoceCounters::*member;
};
#define UROCE_COLUMN(name) \
  { #name, &RoceCounters::name }
inline constexpr RoceColumn kRoceColumns[] = {
    UROCE_COLUMN(direct_bytes),          UROCE_COLUMN(requests_sent),
    UROCE_COLUMN(requests_resent),       UROCE_COLUMN(packet_seq_err),
    UROCE_COLUMN(local_ack_timeout_err), UROCE_COLUMN(rnr_nak_retry_err),
    UROCE_COLUMN(out_of_sequence),       UROCE_COLUMN(np_ecn_marked_roce_packets),
    UROCE_COLUMN(np_cnp_sent),           UROCE_COLUMN(rp_cnp_handled),
};
#undef UROCE_COLUMN

// For each line of latency.def, named LINE_NAME.
struct LatencyColumn {
  std::string_view name;
  unsigned permille;
};
inline constexpr LatencyColumn kLatencyColumns[] = {{"p50_ns", 500}, {"p99_ns", 990}};

}  // namespace uroce::control
