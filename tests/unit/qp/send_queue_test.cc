// Invalid work requests of a buggy or hostile program: each is refused in its turn, and a corrupted
// ring breaks only its own queue pair.

#include "dataplane/qp/queues/send_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "abi/operations.h"
#include "dataplane/qp/failure.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

// Posts good work, then `spoil`s one, then more good work. The work before must succeed, the bad
// one fail with `status`, and the rest be flushed, in this order.
void expect_refused(WcStatus status, Failure failure,
                    const std::function<void(QpPair& pair)>& spoil, const PairConfig& config = {}) {
  QpPair pair(config);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0, 0),
                   std::array{pair.a.sge(0, 2'000)});
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 2'000)});
  spoil(pair);
  pair.a.post_send(rdma_wr(4, WrOpcode::kRdmaWrite, pair.b, 0, 0), std::array{pair.a.sge(0, 8)});

  pair.exchange();

  const WcStatus expected[] = {WcStatus::kSuccess, status, WcStatus::kWrFlushErr};
  const std::uint64_t ids[] = {2, 3, 4};
  for (int i = 0; i < 3; ++i) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value()) << i;
    EXPECT_EQ(cqe->wr_id, ids[i]);
    EXPECT_EQ(cqe->status, expected[i]);
    if (i == 1) {
      EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(failure));
    }
  }
  EXPECT_FALSE(pair.a.poll_send().has_value());
  EXPECT_EQ(pair.a.qp().state(), QpState::kErr);
  EXPECT_EQ(pair.a.send_consumer(), 4U);
  EXPECT_EQ(pair.b.qp().state(), QpState::kRts);
}

// Numbers as programs have them: enum ibv_qp_type, enum ibv_wr_opcode.
TEST(SendQueue, ATypeHasTheOperationsOfTable49) {
  const std::map<std::uint32_t, std::set<std::uint32_t>> table{
      {2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15}},  // RC
      {3, {0, 1, 2, 3, 7, 8}},                      // UC
      {4, {2, 3}},                                  // UD
      {9, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},          // XRC_SEND
  };
  for (std::uint32_t type = 0; type < 300; ++type) {
    for (std::uint32_t opcode = 0; opcode < 300; ++opcode) {
      const auto row = table.find(type);
      const bool may = row != table.end() && row->second.contains(opcode);
      EXPECT_EQ(abi::may_post(type, opcode), may) << type << ' ' << opcode;
    }
  }
}

TEST(SendQueue, RefusesOpcodesThatTheTypeDoesNotHave) {
  for (const int opcode : {9 + 1, 99, 255}) {
    expect_refused(WcStatus::kLocQpOpErr, Failure::kSendOpcode, [&](QpPair& pair) {
      pair.a.post_send(rdma_wr(3, static_cast<WrOpcode>(opcode), pair.b, 0));
    });
  }
}

TEST(SendQueue, RefusesMoreThanItsCapabilities) {
  expect_refused(WcStatus::kLocQpOpErr, Failure::kSendSges, [](QpPair& pair) {
    const std::vector<abi::Sge> list(5, pair.a.sge(0, 1));
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), list);
  });
  expect_refused(WcStatus::kLocQpOpErr, Failure::kSendSges, [](QpPair& pair) {
    pair.a.post_inline(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), std::vector<std::byte>(65));
  });
  expect_refused(WcStatus::kLocQpOpErr, Failure::kSendLength, [](QpPair& pair) {
    pair.a.post_inline(rdma_wr(3, WrOpcode::kRdmaRead, pair.b, 0), std::vector<std::byte>(8));
  });
}

// A work request that claims more SGEs or inline bytes than fit into its entry.
TEST(SendQueue, TheSmallestEntryHoldsALineAndNoMore) {
  PairConfig config;
  config.a.queues.sge_max = 1;
  config.a.queues.inline_max = 16;
  // In some only the low byte would be valid.
  const std::pair<std::uint8_t, std::uint16_t> wrong[] = {
      {0, 2}, {0, 0x101}, {0, 0xFFFF}, {abi::kInline, 17}, {abi::kInline, 0x110}};
  for (const auto& [flag, count] : wrong) {
    // Named again: clang before 16 doesn't capture a structured binding.
    const auto spoil = [flag = flag, count = count](QpPair& pair) {
      ASSERT_EQ(pair.a.sends.stride, kCacheLine);
      pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
      auto& wr = *reinterpret_cast<abi::SendWr*>(pair.a.sends.entries.data() +
                                                 std::size_t{2} * pair.a.sends.stride);
      ASSERT_EQ(wr.wr_id, 3U);
      wr.flags |= flag;
      wr.payload_count = count;
    };
    expect_refused(WcStatus::kLocQpOpErr, Failure::kSendSges, spoil, config);
  }
  QpPair pair(config);
  const std::vector<std::byte> bytes(16, std::byte{7});
  pair.a.post_inline(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), bytes);
  pair.a.post_inline(rdma_wr(2, WrOpcode::kAtomicWrite, pair.b, 64),
                     std::span(bytes).first(sizeof(std::uint64_t)));
  pair.run();
  for (int i = 0; i < 2; ++i) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  }
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), pair.b.memory.begin()));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 8, pair.b.memory.begin() + 64));
}

TEST(SendQueue, RefusesLengthsThatCanNotBe) {
  expect_refused(WcStatus::kLocLenErr, Failure::kSendTooLong, [](QpPair& pair) {
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0),
                     std::array{pair.a.sge(0, (1U << 31U) + 1)});
  });
  expect_refused(WcStatus::kLocLenErr, Failure::kSendTooLong, [](QpPair& pair) {
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0),
                     std::array{pair.a.sge(0, 0xFFFF'FFFF), pair.a.sge(0, 0xFFFF'FFFF)});
  });
  expect_refused(WcStatus::kLocLenErr, Failure::kSendLength, [](QpPair& pair) {
    pair.a.post_send(rdma_wr(3, WrOpcode::kAtomicFetchAndAdd, pair.b, 0),
                     std::array{pair.a.sge(0, 7)});
  });
}

TEST(SendQueue, RefusesMemoryThatIsNotTheirs) {
  expect_refused(WcStatus::kLocProtErr, Failure::kSendKey, [](QpPair& pair) {
    abi::Sge sge = pair.a.sge(0, 8);
    sge.lkey ^= 1;
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), std::array{sge});
  });
  // The bad part comes late: the part that was already sent stands, but the message doesn't
  // complete.
  expect_refused(WcStatus::kLocProtErr, Failure::kSendKey, [](QpPair& pair) {
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0),
                     std::array{pair.a.sge(0, 5'000), pair.a.sge(pair.a.memory.size(), 1)});
  });
  expect_refused(WcStatus::kLocProtErr, Failure::kSendKey, [](QpPair& pair) {
    abi::Sge sge = pair.a.sge(0, 8);
    sge.lkey ^= 1;
    pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaRead, pair.b, 0), std::array{sge});
  });
}

TEST(SendQueue, RefusesReadsWhereNoneMayBeOutstanding) {
  QpPair pair({.max_rd_atomic = 0});
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kLocQpOpErr);
  EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(Failure::kSendNoReads));
}

TEST(SendQueue, BreaksOnAnIndexBeyondTheRing) {
  for (const std::uint32_t step : {65U, 0x8000'0000U, 0xFFFF'FFFFU}) {
    QpPair pair;
    pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
    pair.exchange();
    pair.a.sends.control.producer.value = 1 + step;
    pair.a.ring(pair.now);
    EXPECT_EQ(pair.a.qp().state(), QpState::kErr) << step;
    EXPECT_TRUE(pair.a.announced(AsyncEvent::kQpFatal));
    pair.a.ring(pair.now);
    EXPECT_FALSE(pair.a.qp().has_work());
  }
}

TEST(SendQueue, ReadsEachEntryOnce) {
  QpPair pair;
  fill_pattern(std::span(pair.a.memory).first(4'000), 1);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 4'000)});
  const auto first = pair.transmit(pair.a, 1);
  // The program overwrites the entry while it is being sent.
  std::fill_n(pair.a.sends.entries.begin(), pair.a.sends.stride, std::byte{0xFF});
  EXPECT_EQ(pair.deliver(pair.b, *first[0]), Drop::kNone);
  pair.exchange();
  const auto cqe = pair.a.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->wr_id, 1U);
  EXPECT_EQ(cqe->status, WcStatus::kSuccess);
  EXPECT_TRUE(
      std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 4'000, pair.b.memory.begin()));
}

TEST(SendQueue, GoesRoundTheRingManyTimes) {
  QpPair pair({.a = {.queues = {.send_entries = 4}}});
  for (std::uint64_t id = 0; id < 21; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
    if (id % 4 == 3) {
      pair.exchange();
    }
  }
  pair.exchange();
  for (std::uint64_t id = 0; id < 21; ++id) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->wr_id, id);
  }
}

TEST(SendQueue, FlushesWorkPostedInError) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0, 0), std::array{pair.a.sge(0, 8)});
  (void)pair.transmit(pair.a);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair.b, 0, 0), std::array{pair.a.sge(0, 8)});
  pair.a.to_error(pair.now);
  pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 8)});
  pair.a.ring(pair.now);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    const auto cqe = pair.a.poll_send();
    ASSERT_TRUE(cqe.has_value());
    EXPECT_EQ(cqe->wr_id, id);
    EXPECT_EQ(cqe->status, WcStatus::kWrFlushErr);
  }
  EXPECT_EQ(pair.a.qp().deadline(), kNever);
}

}  // namespace
}  // namespace uroce::test
