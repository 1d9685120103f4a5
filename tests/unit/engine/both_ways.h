#pragma once

// Does the same with frames and without, and compares what programs and peers can observe.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/engine/many_pairs.h"

namespace uroce::test {

// What programs and peers can observe of a run.
struct Seen {
  std::vector<std::string> completions;
  std::vector<std::byte> bytes;
  std::vector<std::uint32_t> psns;
  std::vector<EventLog::Entry> events;
  abi::WcStatus failure = abi::WcStatus::kSuccess;  // of the first work request that failed
};

inline std::string describe(const char* who, const abi::Cqe& cqe) {
  return std::string(who) + " " + std::to_string(cqe.wr_id) + " status " +
         std::to_string(static_cast<int>(cqe.status)) + " opcode " +
         std::to_string(static_cast<int>(cqe.opcode)) + " length " + std::to_string(cqe.byte_len) +
         " immediate " + std::to_string(cqe.immediate) + " flags " + std::to_string(cqe.wc_flags) +
         " from " + std::to_string(cqe.src_qp) + " why " + std::to_string(cqe.vendor_err);
}

inline Seen seen(OneDaemon& daemon) {
  Seen all;
  for (auto* end : {&daemon.pair.a, &daemon.pair.b}) {
    const char* name = end == &daemon.pair.a ? "a" : "b";
    while (const auto cqe = end->poll_send()) {
      all.completions.push_back(describe(name, *cqe));
      all.failure = all.failure == abi::WcStatus::kSuccess ? cqe->status : all.failure;
    }
    while (const auto cqe = end->poll_recv()) {
      all.completions.push_back(describe(name, *cqe) + " (received)");
      all.failure = all.failure == abi::WcStatus::kSuccess ? cqe->status : all.failure;
    }
    all.bytes.insert(all.bytes.end(), end->memory.begin(), end->memory.end());
    all.psns.push_back(end->qp().send_psn());
    all.psns.push_back(end->qp().expected_psn());
    all.psns.push_back(static_cast<std::uint32_t>(end->qp().state()));
    all.psns.push_back(end->send_consumer());
    all.events.insert(all.events.end(), end->events.entries.begin(), end->events.entries.end());
  }
  return all;
}

using Act = std::function<void(OneDaemon&)>;

// Does the same with frames and without, and expects that the first work request to fail does so
// with `failure`; returns the number of messages that went without frames.
inline std::uint64_t both_ways(const Act& act, const PairConfig& config = small_memory(),
                               abi::WcStatus failure = abi::WcStatus::kSuccess) {
  std::vector<Seen> runs;
  std::uint64_t direct = 0;
  for (const bool without_frames : {false, true}) {
    OneDaemon daemon(without_frames, config);
    fill_pattern(daemon.pair.a.memory, 5);
    fill_pattern(daemon.pair.b.memory, 6);
    act(daemon);
    daemon.settle(true);
    runs.push_back(seen(daemon));
    direct = daemon.pair.a.qp().counters().direct_messages +
             daemon.pair.b.qp().counters().direct_messages;
    EXPECT_TRUE(without_frames || direct == 0);
  }
  EXPECT_EQ(runs[0].completions, runs[1].completions);
  EXPECT_EQ(runs[0].psns, runs[1].psns);
  EXPECT_TRUE(runs[0].bytes == runs[1].bytes);
  EXPECT_TRUE(runs[0].events == runs[1].events);
  EXPECT_FALSE(runs[0].completions.empty());
  EXPECT_EQ(runs[0].failure, failure);
  return direct;
}

inline abi::SendWr with_immediate(abi::WrOpcode opcode, std::uint64_t id, Endpoint& remote) {
  abi::SendWr wr = rdma_wr(id, opcode, remote, 4'096);
  wr.immediate = 0x1234'5678;
  wr.flags = abi::kSignaled | abi::kSolicited;
  return wr;
}

inline void post_receives(OneDaemon& daemon, std::uint32_t count, std::uint32_t length) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const abi::Sge sges[] = {
        daemon.pair.b.sge(std::size_t{i} * length, length / 4),
        daemon.pair.b.sge(std::size_t{i} * length + length / 4 + 3, length - length / 4 - 3)};
    daemon.pair.b.post_recv(100 + i, sges);
  }
}

}  // namespace uroce::test
