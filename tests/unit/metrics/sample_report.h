#pragma once

// A status report as the daemon makes it, with a distinct number in each place.

#include <nlohmann/json.hpp>

namespace uroce::control {

inline nlohmann::ordered_json sample_report() {
  return nlohmann::ordered_json::parse(R"({
    "version": "1.2.3", "pid": 7, "stuck_threads": [],
    "workers": [
      {"worker": 0, "turns": 5, "absent_us": 1500, "page_fault_time": {"count": 2, "sum_ns": 3000, "up_to": [1, 2]}, "drops": {"bad_icrc": 3, "no_receive": 1}},
      {"worker": 1, "turns": 6, "absent_us": 0, "drops": {"bad_icrc": 4}}],
    "sessions": [
      {"id": 1, "command": "uroce", "device": "", "regions": 0, "qps": []},
      {"id": 2, "command": "a \"b\\c", "device": "uroce0", "regions": 3, "events_lost": 1, "qps": [
        {"qpn": 17, "state": "RTS", "requests_sent": 10, "packet_seq_err": 2, "latency":
          {"read": {"count": 4, "p50_ns": 2000, "p99_ns": 3000, "p99_9_ns": 4000, "max_ns": 4001}}},
        {"qpn": 18, "state": "ERR", "requests_sent": 20, "packet_seq_err": 0}]}],
    "devices": [
      {"name": "uroce0", "port": "loopback", "rx_bytes": 100, "tx_bytes": 12345678901234, "rx_frames": 1,
       "tx_frames": 2, "rx_missed": 3, "tx_failed": 4, "tx_refused": 5, "ip_id_solved": 6,
       "identity": {"state": 4, "phys_state": 5, "active_width": 2, "active_speed": 32},
       "hw_counters": {"requests_sent": 30, "packet_seq_err": 2, "rx_icrc_encapsulated": 7},
       "latency": {"write": {"count": 5, "sum_ns": 123456, "up_to": [0, 3, 4]}}}],
    "connections": {"ids": 1, "listeners": [{}], "connections": [{}, {}],
                    "counters": {"received": 9, "last_reject_sent": "text"}}})");
}

}  // namespace uroce::control
