#pragma once

// Classic BPF programs that the kernel asks for the worker who owns a RoCEv2 packet: the number of
// the destination queue pair modulo the number of workers. So sockets that share an address or an
// interface, one a worker, are each given what is their worker's.

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace uroce {

// Of a UDP datagram, whose payload begins with the BTH.
[[nodiscard]] std::vector<sock_filter> datagram_steering_bpf(std::uint16_t workers);

// Of what a packet socket sees: any frame, with or without VLAN tag. What isn't RoCEv2 is worker
// 0's.
[[nodiscard]] std::vector<sock_filter> packet_steering_bpf(std::uint16_t workers);

// As the kernel takes it. REQUIRES: `program` lives as long.
[[nodiscard]] inline sock_fprog as_filter(std::span<sock_filter> program) {
  return {.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
}

}  // namespace uroce
