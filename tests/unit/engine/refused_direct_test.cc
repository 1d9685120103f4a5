// Messages between queue pairs of one worker that must go as frames, because they are refused or
// have to wait, and what follows them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/unit/engine/both_ways.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

TEST(Direct, ABadKeyFailsAsInFrames) {
  EXPECT_EQ(1U, both_ways(
                    [](OneDaemon& daemon) {
                      daemon.post_write(1, 5'000);
                      const abi::Sge sge = daemon.pair.a.sge(0, 5'000);
                      abi::SendWr wr = rdma_wr(2, WrOpcode::kRdmaWrite, daemon.pair.b, 0);
                      wr.rkey += 1;
                      daemon.post(wr, {&sge, 1});
                      daemon.post_write(3, 8);
                    },
                    small_memory(), abi::WcStatus::kRemAccessErr));
}

TEST(Direct, AWriteBeyondItsRegionStoresNothing) {
  both_ways(
      [](OneDaemon& daemon) {
        const abi::Sge sges[] = {daemon.pair.a.sge(0, 4'000), daemon.pair.a.sge(9'000, 1'000)};
        daemon.post(rdma_wr(1, WrOpcode::kRdmaWrite, daemon.pair.b, kSmallMemory - 4'999), sges);
        const std::vector<std::byte> before(daemon.pair.b.memory.begin(),
                                            daemon.pair.b.memory.end());
        daemon.settle();
        EXPECT_TRUE(std::equal(before.begin(), before.end(), daemon.pair.b.memory.begin()));
      },
      small_memory(), abi::WcStatus::kRemAccessErr);
}

TEST(Direct, ABadLocalKeyFailsAsInFrames) {
  both_ways(
      [](OneDaemon& daemon) {
        abi::Sge sge = daemon.pair.a.sge(0, 5'000);
        sge.lkey += 1;
        daemon.post(rdma_wr(1, WrOpcode::kRdmaWrite, daemon.pair.b, 0), {&sge, 1});
        daemon.post_write(2, 8);
      },
      small_memory(), abi::WcStatus::kLocProtErr);
}

TEST(Direct, ReadsAndAtomicsThatAreRefusedFailAsInFrames) {
  for (const WrOpcode opcode : {WrOpcode::kRdmaRead, WrOpcode::kAtomicFetchAndAdd}) {
    both_ways(
        [opcode](OneDaemon& daemon) {
          const abi::Sge sge = daemon.pair.a.sge(0, 8);
          abi::SendWr wr = rdma_wr(1, opcode, daemon.pair.b, kSmallMemory - 8);
          daemon.post(wr, {&sge, 1});
          wr.remote_address += 8;
          daemon.post(wr, {&sge, 1});
        },
        small_memory(), abi::WcStatus::kRemAccessErr);
  }
}

TEST(Direct, AReadIntoMemoryThatMayNotBeWrittenFailsAsInFrames) {
  PairConfig config = small_memory();
  config.a.access = kAccessRemoteRead;
  both_ways(
      [](OneDaemon& daemon) {
        const abi::Sge sge = daemon.pair.a.sge(0, 4'000);
        daemon.post(rdma_wr(1, WrOpcode::kRdmaRead, daemon.pair.b, 0), {&sge, 1});
      },
      config, abi::WcStatus::kLocProtErr);
}

TEST(Direct, AReceiveThatIsTooShortFailsAsInFrames) {
  both_ways(
      [](OneDaemon& daemon) {
        post_receives(daemon, 2, 4'000);
        const abi::Sge sge = daemon.pair.a.sge(0, 4'001);
        daemon.post(send_wr(1, WrOpcode::kSend), {&sge, 1});
        daemon.post(send_wr(2, WrOpcode::kSend), {});
      },
      small_memory(), abi::WcStatus::kRemInvReqErr);
}

TEST(Direct, AReceiveThatComesLateIsWaitedFor) {
  const auto act = [](OneDaemon& daemon) {
    const abi::Sge sge = daemon.pair.a.sge(0, 9'000);
    for (std::uint64_t i = 0; i < 3; ++i) {
      daemon.post(send_wr(i, WrOpcode::kSend), {&sge, 1});
    }
    daemon.settle();
    post_receives(daemon, 3, 10'000);
  };
  EXPECT_GE(both_ways(act), 1U);
}

TEST(Direct, ASendInvalidatesOnlyWhatItMay) {
  both_ways(
      [](OneDaemon& daemon) {
        post_receives(daemon, 2, 4'000);
        const abi::Sge sge = daemon.pair.a.sge(0, 400);
        abi::SendWr wr = send_wr(1, WrOpcode::kSendWithInv);
        wr.immediate = daemon.pair.b.key();  // a region's: can't be
        daemon.post(wr, {&sge, 1});
      },
      small_memory(), abi::WcStatus::kRemInvReqErr);
}

TEST(Direct, UnreliableConnections) {
  PairConfig config = small_memory();
  config.a.type = config.b.type = QpType::kUc;
  const auto act = [](OneDaemon& daemon) {
    daemon.post_write(1, 100'000);
    const abi::Sge sge = daemon.pair.a.sge(0, 9'000);
    daemon.post(send_wr(2, WrOpcode::kSend), {&sge, 1});  // no receive: lost
    daemon.settle();
    post_receives(daemon, 1, 10'000);
    daemon.post(send_wr(3, WrOpcode::kSend), {&sge, 1});
    abi::SendWr wr = rdma_wr(4, WrOpcode::kRdmaWrite, daemon.pair.b, 0);
    wr.rkey += 1;  // refused: lost
    daemon.post(wr, {&sge, 1});
    daemon.post_write(5, 50'000, 100'000);
  };
  EXPECT_GE(both_ways(act, config), 1U);
}

}  // namespace
}  // namespace uroce::test
