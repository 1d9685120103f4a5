#pragma once

// Many queue pairs of one daemon, connected in pairs: one worker, the built-in loopback, and the
// programs' side of all of them.

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/unit/engine/one_daemon.h"

namespace uroce::test {

struct ManyPairs {
  explicit ManyPairs(std::uint32_t count) : daemon(true, small_memory()) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t qpn = kFirstQpn + 2 * i;
      Endpoint& sender = add(senders, qpn, qpn + 1);
      add(receivers, qpn + 1, qpn);
      slots.push_back(daemon.station.add(sender.qp()));
      daemon.station.add(receivers.back().qp());
    }
  }

  // Posts a WRITE of this many bytes, at most kMemory, on one of them, and rings the doorbell.
  void post_write(std::uint32_t index, std::uint64_t id, std::uint32_t length = 8) {
    Endpoint& sender = senders[index];
    const abi::Sge sge = sender.sge(0, length);
    sender.post_send(rdma_wr(id, abi::WrOpcode::kRdmaWrite, receivers[index], 0), {&sge, 1});
    daemon.station.ring(slots[index]);
  }

  static constexpr std::uint32_t kFirstQpn = 100;
  static constexpr std::size_t kMemory = 4'096;  // bytes of each
  OneDaemon daemon;
  std::deque<Endpoint> senders, receivers;
  std::vector<std::uint32_t> slots;  // of the senders

 private:
  Endpoint& add(std::deque<Endpoint>& to, std::uint32_t qpn, std::uint32_t peer) {
    EndpointConfig config;
    config.qpn = qpn;
    config.memory_bytes = kMemory;
    config.keys = &daemon.pair.a.keys();
    Endpoint& end = to.emplace_back(config);
    QpAttributes attributes = daemon.pair.attributes(&to == &senders);
    attributes.dest_qpn = peer;
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attributes.state = state;
      end.modify(attributes, ~0U, daemon.now);
    }
    return end;
  }
};

}  // namespace uroce::test
