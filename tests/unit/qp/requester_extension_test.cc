// ATOMIC WRITE and FLUSH (annex A19), from the work request to its completion.

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcOpcode;
using abi::WcStatus;
using abi::WrOpcode;

constexpr std::uint32_t kFlushRights = kAccessFlushGlobal | kAccessFlushPersistent;

class RequesterExtension : public ::testing::Test {
 protected:
  RequesterExtension() {
    fill_pattern(pair.a.memory, 1);
    QpAttributes attributes = pair.attributes(false);
    attributes.access |= kFlushRights;
    pair.b.modify(attributes, kQpMaskAccess);
  }
  static PairConfig flushable() {
    PairConfig config;
    config.b.access |= kFlushRights;
    return config;
  }
  abi::SendWr flush_wr(std::uint64_t wr_id, std::uint32_t placement, std::uint64_t length) {
    abi::SendWr wr = rdma_wr(wr_id, WrOpcode::kFlush, pair.b, 0);
    wr.flush = {.placement = placement, .selectivity = 0, .length = length};
    return wr;
  }
  void expect_sent(std::uint64_t wr_id, WcStatus status, WcOpcode opcode) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << "no completion of " << wr_id;
    EXPECT_EQ(cqe->wr_id, wr_id);
    EXPECT_EQ(cqe->status, status);
    EXPECT_EQ(cqe->opcode, opcode);
  }
  [[nodiscard]] bool stored(std::size_t to, std::size_t from) const {
    return std::memcmp(pair.b.memory.data() + to, pair.a.memory.data() + from, 8) == 0;
  }

  QpPair pair{flushable()};
};

TEST_F(RequesterExtension, AtomicWritesFromMemoryAndInline) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kAtomicWrite, pair.b, 16), std::array{pair.a.sge(0, 8)});
  pair.a.post_inline(rdma_wr(2, WrOpcode::kAtomicWrite, pair.b, 24),
                     std::span(pair.a.memory).subspan(8, 8));
  pair.exchange();
  expect_sent(1, WcStatus::kSuccess, WcOpcode::kAtomicWrite);
  expect_sent(2, WcStatus::kSuccess, WcOpcode::kAtomicWrite);
  EXPECT_TRUE(stored(16, 0));
  EXPECT_TRUE(stored(24, 8));
}

TEST_F(RequesterExtension, AnAtomicWriteHas8Bytes) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kAtomicWrite, pair.b, 16), std::array{pair.a.sge(0, 9)});
  pair.exchange();
  expect_sent(1, WcStatus::kLocLenErr, WcOpcode::kAtomicWrite);
}

TEST_F(RequesterExtension, AFlushFollowsWhatWasWritten) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 4'096)});
  pair.a.post_send(flush_wr(2, kFlushRights >> 8U, 4'096));
  pair.exchange();
  expect_sent(1, WcStatus::kSuccess, WcOpcode::kRdmaWrite);
  expect_sent(2, WcStatus::kSuccess, WcOpcode::kFlush);
}

TEST_F(RequesterExtension, AFlushTooLongForTheWireIsRefused) {
  pair.a.post_send(flush_wr(1, 1, 1ULL << 32U));
  pair.exchange();
  expect_sent(1, WcStatus::kLocLenErr, WcOpcode::kFlush);
}

// They count as READs: a fence waits for them, and max_rd_atomic bounds them.
TEST_F(RequesterExtension, TheyAreOrderedAsReads) {
  abi::SendWr fenced = rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 0);
  fenced.flags |= abi::kFence;
  pair.a.post_send(flush_wr(1, 1, 64));
  pair.a.post_send(fenced, std::array{pair.a.sge(0, 8)});
  EXPECT_EQ(pair.transmit(pair.a).size(), 1U);  // and it is lost
  pair.run();
  expect_sent(1, WcStatus::kSuccess, WcOpcode::kFlush);
  expect_sent(2, WcStatus::kSuccess, WcOpcode::kRdmaWrite);
  for (std::uint64_t i = 0; i < 6; ++i) {
    pair.a.post_send(rdma_wr(i, WrOpcode::kAtomicWrite, pair.b, 8 * i),
                     std::array{pair.a.sge(8 * i, 8)});
  }
  EXPECT_EQ(pair.transmit(pair.a).size(), 4U);
}

TEST_F(RequesterExtension, LostAnswersAreRequestedAgain) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kAtomicWrite, pair.b, 16), std::array{pair.a.sge(0, 8)});
  pair.a.post_send(flush_wr(2, 1, 64));
  int lost = 0;
  pair.run([&](const Packet&, bool to_b) { return !to_b && lost++ < 2; });
  EXPECT_GE(lost, 3);
  expect_sent(1, WcStatus::kSuccess, WcOpcode::kAtomicWrite);
  expect_sent(2, WcStatus::kSuccess, WcOpcode::kFlush);
  EXPECT_TRUE(stored(16, 0));
}

// A READ response with data answers neither; an atomic's acknowledgement doesn't either.
TEST_F(RequesterExtension, OtherResponsesFailTheRequest) {
  const std::array<std::byte, 8> data{};
  const Headers with_data{.opcode = Opcode::kRcReadResponseOnly, .psn = 100};
  pair.a.post_send(flush_wr(1, 1, 64));
  (void)pair.transmit(pair.a);
  (void)pair.deliver(pair.a, *pair.forge(pair.a, with_data, data));
  expect_sent(1, WcStatus::kBadRespErr, WcOpcode::kFlush);
}

}  // namespace
}  // namespace uroce::test
