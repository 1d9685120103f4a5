#pragma once

// Maps members of the status report to metrics. Names of counters lack the suffix "_total".

#include <string_view>

namespace uroce::control {

struct MetricRow {
  std::string_view member;  // in the report's object
  std::string_view name;
  std::string_view help;
  double factor = 1;
};

// devices[], under the names of node_exporter's infiniband collector.
inline constexpr MetricRow kPortCounters[] = {
    {"rx_bytes", "node_infiniband_port_data_received_bytes",
     "Number of data octets received on all links"},
    {"tx_bytes", "node_infiniband_port_data_transmitted_bytes",
     "Number of data octets transmitted on all links"},
    {"rx_frames", "node_infiniband_port_packets_received",
     "Number of packets received on all VLs by this port (including errors)"},
    {"tx_frames", "node_infiniband_port_packets_transmitted",
     "Number of packets transmitted on all VLs from this port (including errors)"},
    {"rx_missed", "node_infiniband_port_errors_received",
     "Number of packets that the port dropped: not polled in time, or no buffer"},
    {"tx_failed", "node_infiniband_port_discards_transmitted",
     "Number of packets lost on their way out: no route, or too long for the path"},
    {"tx_refused", "uroce_port_transmit_refused",
     "Bursts that the port accepted only in part; nothing is lost"},
    {"ip_id_solved", "uroce_port_ip_id_solved",
     "Datagrams whose IPv4 identification followed from their ICRC"},
};

// devices[].hw_counters for which the collector's name differs from the hardware's. The others are
// uroce_NAME, with the help text of dataplane/qp/counters.def.
inline constexpr MetricRow kHardwareNames[] = {
    {"packet_seq_err", "node_infiniband_packet_sequence_errors", ""},
    {"implied_nak_seq_err", "node_infiniband_implied_nak_seq_errors", ""},
    {"local_ack_timeout_err", "node_infiniband_local_ack_timeout_errors", ""},
    {"rnr_nak_retry_err", "node_infiniband_rnr_nak_retry_packets", ""},
    {"out_of_sequence", "node_infiniband_out_of_sequence_packets_received", ""},
    {"duplicate_request", "node_infiniband_duplicate_requests_packets", ""},
    {"roce_adp_retrans", "node_infiniband_roce_adp_retransmits", ""},
    {"np_ecn_marked_roce_packets", "node_infiniband_np_ecn_marked_roce_packets_received", ""},
    {"np_cnp_sent", "node_infiniband_np_cnp_packets_sent", ""},
    {"rp_cnp_handled", "node_infiniband_rp_cnp_packets_handled", ""},
    {"rp_cnp_ignored", "node_infiniband_rp_cnp_ignored_packets_received", ""},
    {"rx_icrc_encapsulated", "node_infiniband_rx_icrc_encapsulated_errors", ""},
};

// workers[].
inline constexpr MetricRow kWorkerCounters[] = {
    {"turns", "uroce_worker_turns", "Turns of a worker"},
    {"idle_turns", "uroce_worker_idle_turns", "Turns of a worker without work"},
    {"sleeps", "uroce_worker_sleeps", "Times that an idle worker slept"},
    {"rx_frames", "uroce_worker_received_frames", "Frames that a worker received"},
    {"handed_over", "uroce_worker_handed_over_frames",
     "Frames that a worker received for another worker's queue pairs"},
    {"tx_frames", "uroce_worker_transmitted_frames", "Frames that a worker sent"},
    {"tx_lost", "uroce_worker_lost_frames",
     "Frames that a worker couldn't send, because the port accepted none for too long or control "
     "sent too many at once"},
    {"absences", "uroce_worker_absences",
     "Times that a worker was kept from running for 1 ms or longer"},
    {"absent_us", "uroce_worker_absent_seconds", "Time for which a worker was kept from running",
     1e-6},
    {"stalls", "uroce_worker_stalls",
     "Times observed that a user's memory kept a worker waiting in the kernel for 5 ms or longer"},
    {"stalled_us", "uroce_worker_stalled_seconds", "Time for which it did", 1e-6},
    {"page_faults", "uroce_worker_page_faults", "Page faults on memory registered on demand"},
    {"page_faults_at_once", "uroce_worker_page_faults_at_once",
     "Page faults that were resolved without waiting"},
    {"page_faults_deferred", "uroce_worker_page_faults_deferred",
     "Page faults for which a queue pair waited"},
    {"page_faults_starved", "uroce_worker_page_faults_starved",
     "Page faults that found no room in the fault thread's queue"},
    {"flushes", "uroce_worker_flushes", "FLUSH requests carried out"},
    {"flushes_starved", "uroce_worker_flushes_starved",
     "FLUSH requests that found no room in the flush thread's queue"},
    {"copies", "uroce_worker_copies", "Copies by system call, of memory that can't be shared"},
    {"copies_late", "uroce_worker_copies_late", "Such copies that took long"},
};

// sessions[], summed.
inline constexpr MetricRow kObjects[] = {
    {"pds", "uroce_protection_domains", "Protection domains of all programs"},
    {"regions", "uroce_memory_regions", "Memory regions of all programs"},
    {"cqs", "uroce_completion_queues", "Completion queues of all programs"},
    {"srqs", "uroce_shared_receive_queues", "Shared receive queues of all programs"},
    {"channels", "uroce_completion_channels", "Completion channels of all programs"},
    {"ahs", "uroce_address_handles", "Address handles of all programs"},
};

}  // namespace uroce::control
