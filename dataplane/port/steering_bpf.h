#pragma once

// Classic BPF programs by which the kernel selects a socket among several that share an address or
// an interface, one per worker: that of the worker which owns the destination queue pair (its
// number modulo the number of workers).

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace uroce {

// For UDP datagrams; their payload begins with the BTH.
[[nodiscard]] std::vector<sock_filter> datagram_steering_bpf(std::uint16_t workers);

// For packet sockets: any frame, with or without a VLAN tag. Other packets go to worker 0.
[[nodiscard]] std::vector<sock_filter> packet_steering_bpf(std::uint16_t workers);

// The kernel's form of it. REQUIRES: `program` outlives it.
[[nodiscard]] inline sock_fprog as_filter(std::span<sock_filter> program) {
  return {.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
}

}  // namespace uroce
