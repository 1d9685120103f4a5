#pragma once

// A daemon's report with one card, and one program that has it open.

#include <nlohmann/json.hpp>
#include <string>

namespace uroce {

inline nlohmann::ordered_json report_of_one_card() {
  return nlohmann::ordered_json::parse(R"({"version": "9.8.7", "devices": [{"name": "uroce0",
    "addresses": [{"index": 0, "address": "fe80::75:72ff:fe6f:6365/64"},
                  {"index": 2, "address": "10.0.0.1/24@5"}],
    "rx_frames": 3, "rx_bytes": 4001, "tx_frames": 5, "tx_bytes": 8000, "rx_missed": 1, "tx_failed": 2,
    "hw_counters": {"requests_sent": 11, "packet_seq_err": 7},
    "identity": {"index": 0, "instance": 50, "node_guid": 33058264063927141, "vendor_id": 30066, "vendor_part_id": 4119,
                 "hw_ver": 1, "state": 4, "phys_state": 5, "active_width": 2, "active_speed": 32,
                 "gid_count": 4, "pkey_count": 1, "interface_index": 0}}],
    "sessions": [{"pid": 77, "device": "uroce0", "pds": 1, "cqs": 2, "regions": 3, "srqs": 0,
                  "qps": [{"qpn": 4242, "type": "RC", "state": "RTS", "remote_qpn": 17, "sq_psn": 100,
                           "rq_psn": 200}],
                  "objects": [{"kind": "pd", "id": 1, "users": 2},
                              {"kind": "cq", "id": 2, "entries": 512, "users": 1},
                              {"kind": "mr", "id": 3, "length": 4096, "pd": 1}]}],
    "connections": {"listeners": [{"pid": 77, "port_space": "tcp", "address": "10.0.0.1:7471"}],
                    "connections": []}})");
}

}  // namespace uroce
