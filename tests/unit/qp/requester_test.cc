// What the requester sends: packets of a message, windows, order, and what it refuses to send.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

TEST(Requester, SendsAMessageToAPostedReceive) {
  QpPair pair;
  fill_pattern(std::span(pair.a.memory).first(5'000), 1);
  pair.b.post_recv(1, std::array{pair.b.sge(0, 6'000)});
  pair.a.post_send(send_wr(2, WrOpcode::kSend), std::array{pair.a.sge(0, 5'000)});

  pair.exchange();

  const auto sent = pair.a.poll_send();
  ASSERT_TRUE(sent.has_value());
  EXPECT_EQ(sent->wr_id, 2U);
  EXPECT_EQ(sent->status, WcStatus::kSuccess);
  const auto received = pair.b.poll_recv();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->byte_len, 5'000U);
  EXPECT_TRUE(
      std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 5'000, pair.b.memory.begin()));
}

TEST(Requester, WritesToTheRemoteRange) {
  QpPair pair;
  fill_pattern(std::span(pair.a.memory).first(3'000), 1);
  pair.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair.b, 64), std::array{pair.a.sge(0, 3'000)});

  pair.exchange();

  ASSERT_TRUE(pair.a.poll_send().has_value());
  EXPECT_TRUE(
      std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 3'000, pair.b.memory.begin() + 64));
}

}  // namespace
}  // namespace uroce::test
