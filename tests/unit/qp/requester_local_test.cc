// Work requests that send nothing: binding windows and invalidating keys, and their order among
// others.

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcOpcode;
using abi::WcStatus;
using abi::WrOpcode;

constexpr PdId kPairPd = 7;  // of QpPair's ends
constexpr std::uint32_t kReadWrite = kAccessRemoteRead | kAccessRemoteWrite;

PairConfig bindable() {
  PairConfig config;
  config.b.access |= kAccessMwBind;
  return config;
}

// b binds windows and invalidates; a is the peer that uses them.
class RequesterLocal : public ::testing::Test {
 protected:
  std::uint32_t add_window(WindowType type = WindowType::kType2) {
    return *pair.b.keys().windows().add(kPairPd, type);
  }
  // Bytes 0 to 63 of b's memory.
  abi::SendWr bind_wr(std::uint64_t wr_id, std::uint32_t window, std::uint32_t new_key,
                      std::uint64_t length = 64) {
    abi::SendWr wr = send_wr(wr_id, WrOpcode::kBindMw);
    wr.rkey = window;
    wr.remote_address = pair.b.address();
    wr.immediate = new_key;
    wr.bind = {.length = length, .lkey = pair.b.key(), .access = kReadWrite};
    return wr;
  }
  static abi::SendWr invalidate_wr(std::uint64_t wr_id, std::uint32_t key) {
    abi::SendWr wr = send_wr(wr_id, WrOpcode::kLocalInv);
    wr.immediate = key;
    return wr;
  }
  void expect_sent(Endpoint& end, std::uint64_t wr_id, WcStatus status, WcOpcode opcode,
                   Failure failure = Failure::kNone) {
    const auto cqe = end.poll_send();
    ASSERT_TRUE(cqe.has_value()) << "no completion of " << wr_id;
    EXPECT_EQ(cqe->wr_id, wr_id);
    EXPECT_EQ(cqe->status, status);
    EXPECT_EQ(cqe->opcode, opcode);
    EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(failure));
  }
  // a writes 8 bytes through `rkey`.
  WcStatus write_through(std::uint32_t rkey) {
    abi::SendWr wr = rdma_wr(99, WrOpcode::kRdmaWrite, pair.b, 8);
    wr.rkey = rkey;
    pair.a.post_send(wr, std::array{pair.a.sge(0, 8)});
    pair.exchange();
    const auto cqe = pair.a.poll_send();
    return cqe ? cqe->status : WcStatus::kGeneralErr;
  }

  QpPair pair{bindable()};
};

TEST_F(RequesterLocal, ABoundWindowGrantsAccessUntilInvalidated) {
  const std::uint32_t window = add_window();
  const std::uint32_t key = window ^ 1U;
  pair.b.post_send(bind_wr(1, window, key));
  pair.exchange();
  expect_sent(pair.b, 1, WcStatus::kSuccess, WcOpcode::kBindMw);
  EXPECT_EQ(write_through(key), WcStatus::kSuccess);
  pair.b.post_send(invalidate_wr(2, key));
  pair.exchange();
  expect_sent(pair.b, 2, WcStatus::kSuccess, WcOpcode::kLocalInv);
  EXPECT_EQ(write_through(key), WcStatus::kRemAccessErr);
}

TEST_F(RequesterLocal, NothingOvertakesABindAndABindOvertakesNothing) {
  const std::uint32_t window = add_window();
  const std::uint32_t key = window ^ 1U;
  pair.b.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.a, 0), std::array{pair.b.sge(512, 8)});
  pair.b.post_send(bind_wr(2, window, key));
  pair.b.post_send(send_wr(3, WrOpcode::kSend), std::array{pair.b.sge(0, 4)});
  pair.a.post_recv(4, std::array{pair.a.sge(0, 64)});

  const auto first = pair.transmit(pair.b);
  ASSERT_EQ(first.size(), 1U);  // the READ: the bind waits for its answer, the SEND for the bind
  EXPECT_EQ(pair.deliver(pair.a, *first[0]), Drop::kNone);
  EXPECT_EQ(pair.b.poll_send(), std::nullopt);
  pair.exchange();
  expect_sent(pair.b, 1, WcStatus::kSuccess, WcOpcode::kRdmaRead);
  expect_sent(pair.b, 2, WcStatus::kSuccess, WcOpcode::kBindMw);
  expect_sent(pair.b, 3, WcStatus::kSuccess, WcOpcode::kSend);
}

// The slot of an unsignaled one is freed nevertheless.
TEST_F(RequesterLocal, UnsignaledOnesFreeTheirSlots) {
  const std::uint32_t window = add_window();
  abi::SendWr bind = bind_wr(1, window, window);
  bind.flags = 0;
  pair.b.post_send(bind);
  abi::SendWr invalidate = invalidate_wr(2, window);
  invalidate.flags = 0;
  pair.b.post_send(invalidate);
  pair.exchange();
  EXPECT_EQ(pair.b.send_consumer(), 2U);
  EXPECT_EQ(pair.b.poll_send(), std::nullopt);
}

TEST_F(RequesterLocal, ManyInARowAllComplete) {
  const std::uint32_t window = add_window();
  for (std::uint32_t i = 0; i < 20; ++i) {
    pair.b.post_send(bind_wr(2 * i, window, window + i));
    pair.b.post_send(invalidate_wr(2 * i + 1, (window & ~0xFFU) | ((window + i) & 0xFFU)));
  }
  pair.exchange();
  for (std::uint32_t i = 0; i < 20; ++i) {
    expect_sent(pair.b, 2 * i, WcStatus::kSuccess, WcOpcode::kBindMw);
    expect_sent(pair.b, 2 * i + 1, WcStatus::kSuccess, WcOpcode::kLocalInv);
  }
}

TEST_F(RequesterLocal, AWindowOfType1IsUnboundByLengthZero) {
  const std::uint32_t window = add_window(WindowType::kType1);
  pair.b.post_send(bind_wr(1, window, window));
  pair.exchange();
  EXPECT_EQ(write_through(window), WcStatus::kSuccess);
  pair.b.post_send(bind_wr(2, window, window ^ 1U, 0));
  pair.exchange();
  expect_sent(pair.b, 1, WcStatus::kSuccess, WcOpcode::kBindMw);
  expect_sent(pair.b, 2, WcStatus::kSuccess, WcOpcode::kBindMw);
  EXPECT_EQ(write_through(window), WcStatus::kRemAccessErr);
}

// Each mistake is reported by its own vendor_err; the queue pair goes to error with it (11.6.2).
TEST_F(RequesterLocal, MistakesAreBindErrors) {
  const std::uint32_t free = add_window();
  const std::uint32_t foreign = *pair.b.keys().windows().add(kPairPd + 1, WindowType::kType2);
  const std::uint32_t type1 = add_window(WindowType::kType1);
  abi::SendWr no_region = bind_wr(1, free, free);
  no_region.bind.lkey ^= 1U;
  abi::SendWr outside = bind_wr(1, free, free, pair.b.memory.size() + 1);
  const struct {
    abi::SendWr wr;
    Failure failure;
    WcOpcode opcode;
  } rows[] = {
      {bind_wr(1, ~0xFFU, free), Failure::kBindWindow, WcOpcode::kBindMw},
      {bind_wr(1, foreign, foreign), Failure::kBindPd, WcOpcode::kBindMw},
      {no_region, Failure::kBindRegion, WcOpcode::kBindMw},
      {outside, Failure::kBindRange, WcOpcode::kBindMw},
      {invalidate_wr(1, pair.b.key()), Failure::kInvalidateLocal, WcOpcode::kLocalInv},
      {invalidate_wr(1, free ^ 1U), Failure::kInvalidateLocal, WcOpcode::kLocalInv},
      {invalidate_wr(1, foreign), Failure::kInvalidateLocal, WcOpcode::kLocalInv},
      {invalidate_wr(1, type1), Failure::kInvalidateLocal, WcOpcode::kLocalInv},
  };
  for (const auto& row : rows) {
    pair.b.post_send(row.wr);
    pair.exchange();
    expect_sent(pair.b, 1, WcStatus::kMwBindErr, row.opcode, row.failure);
    EXPECT_EQ(pair.b.qp().state(), QpState::kErr);
    pair.b.modify({.state = QpState::kReset}, kQpMaskState);
    pair.connect(pair.b);
  }
}

TEST(RequesterLocalRights, ARegionThatCantBeBoundTo) {
  QpPair pair;
  const std::uint32_t window = *pair.b.keys().windows().add(kPairPd, WindowType::kType2);
  abi::SendWr wr = send_wr(1, WrOpcode::kBindMw);
  wr.rkey = window;
  wr.remote_address = pair.b.address();
  wr.immediate = window;
  wr.bind = {.length = 64, .lkey = pair.b.key(), .access = kReadWrite};
  pair.b.post_send(wr);
  pair.exchange();
  const auto cqe = pair.b.poll_send();
  ASSERT_TRUE(cqe.has_value());
  EXPECT_EQ(cqe->status, WcStatus::kMwBindErr);
  EXPECT_EQ(cqe->vendor_err, static_cast<std::uint32_t>(Failure::kBindRight));
}

TEST_F(RequesterLocal, InErrorTheyAreFlushed) {
  const std::uint32_t window = add_window();
  pair.b.to_error();
  pair.b.post_send(bind_wr(1, window, window));
  pair.b.ring(pair.now);
  expect_sent(pair.b, 1, WcStatus::kWrFlushErr, WcOpcode::kBindMw, Failure::kFlushed);
  EXPECT_EQ(write_through(window), WcStatus::kGeneralErr);  // b is in error, nothing was bound
}

// In SQD nothing begins; work that was begun before is finished (10.3.1.1.6).
TEST_F(RequesterLocal, WaitForTheEndOfDraining) {
  const std::uint32_t window = add_window();
  pair.b.modify({.state = QpState::kSqd}, kQpMaskState);
  pair.b.post_send(bind_wr(1, window, window));
  pair.exchange();
  EXPECT_EQ(pair.b.poll_send(), std::nullopt);
  pair.b.modify({.state = QpState::kRts}, kQpMaskState);
  pair.exchange();
  expect_sent(pair.b, 1, WcStatus::kSuccess, WcOpcode::kBindMw);
}

}  // namespace
}  // namespace uroce::test
