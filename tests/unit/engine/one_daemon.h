#pragma once

// Two queue pairs of one daemon, connected to each other: one worker, the built-in loopback, and
// the programs' side of both.

#include "dataplane/port/loopback_port.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {

inline PairConfig in_one_daemon(PairConfig config, const Port& port) {
  config.shared_mac = port.info().mac;
  return config;
}

inline constexpr std::size_t kSmallMemory = 1U << 18U;  // bytes of each side

inline PairConfig small_memory(PairConfig config = {}) {
  config.a.memory_bytes = config.b.memory_bytes = kSmallMemory;
  return config;
}

struct OneDaemon {
  explicit OneDaemon(bool direct, const PairConfig& config = {}, PagingQueues* paging = nullptr,
                     Time (*clock)() = nullptr)
      : pair(in_one_daemon(config, port)),
        station({.ports = {&port},
                 .keys = &pair.a.keys(),
                 .paging = paging,
                 .direct = direct,
                 .clock = clock},
                "10.0.0.1") {
    station.worker.set_addresses(0, {parse_ip("10.0.0.1").value(), parse_ip("10.0.0.2").value()});
    a = station.add(pair.a.qp());
    b = station.add(pair.b.qp());
  }

  // Polls until there is nothing to do; with `time`, time passes from deadline to deadline.
  void settle(bool time = false) {
    do {
      while (station.worker.poll(now)) {
      }
      const Time due = station.worker.next_deadline();
      if (!time || due == kNever) {
        return;
      }
      now = std::max(now + 1, due);
    } while (now < kEnd);
  }

  void post(const abi::SendWr& wr, std::span<const abi::Sge> sges) {
    pair.a.post_send(wr, sges);
    station.ring(a);
  }
  void post_write(std::uint64_t id, std::size_t length, std::size_t offset = 0) {
    const abi::Sge sge = pair.a.sge(offset, length);
    post(rdma_wr(id, abi::WrOpcode::kRdmaWrite, pair.b, offset), {&sge, 1});
  }

  static constexpr Time kEnd = 100 * kNanosecondsPerSecond;
  LoopbackPort port{4'096 + 100, 1};
  QpPair pair;
  Station station;
  std::uint32_t a = 0, b = 0;  // doorbell slots
  Time now = 1'000'000;
};

}  // namespace uroce::test
