// How losses are counted: each event increments its own counter and no other.

#include "dataplane/qp/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;
using Counts = std::map<std::string_view, std::uint64_t>;

// The counters among `names` that aren't 0.
Counts counted(Endpoint& end, std::initializer_list<std::string_view> names) {
  Counts counts;
  for (const RoceCounter& counter : kRoceCounters) {
    const std::uint64_t value = end.qp().counters().*counter.member;
    if (value != 0 && std::find(names.begin(), names.end(), counter.name) != names.end()) {
      counts[counter.name] = value;
    }
  }
  return counts;
}

Counts losses(Endpoint& end) {
  return counted(end, {"packet_seq_err", "out_of_sequence", "local_ack_timeout_err",
                       "duplicate_request", "implied_nak_seq_err", "rnr_nak_retry_err"});
}

// Loses the frames at these positions among all that are sent.
QpPair::Filter losing(std::initializer_list<int> places) {
  return [places = std::vector<int>(places), frame = 0](const Packet&, bool) mutable {
    return std::find(places.begin(), places.end(), frame++) != places.end();
  };
}

void post_write(QpPair& pair, std::size_t length) {
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, length)});
}

TEST(Counters, NoLossCountsNone) {
  QpPair pair;
  post_write(pair, 10'000);
  pair.run();
  EXPECT_EQ(losses(pair.a), Counts{});
  EXPECT_EQ(losses(pair.b), Counts{});
}

TEST(Counters, ALostRequestIsOneGapAndOneNak) {
  QpPair pair;
  post_write(pair, 10'000);
  pair.run(losing({2}));
  EXPECT_EQ(losses(pair.a), (Counts{{"packet_seq_err", 1}}));
  EXPECT_EQ(losses(pair.b), (Counts{{"out_of_sequence", 1}}));
}

TEST(Counters, ALostAcknowledgementIsATimeoutAndADuplicate) {
  QpPair pair;
  post_write(pair, 100);
  pair.run(losing({1}));
  EXPECT_EQ(losses(pair.a), (Counts{{"local_ack_timeout_err", 1}}));
  EXPECT_EQ(losses(pair.b), (Counts{{"duplicate_request", 1}}));
}

TEST(Counters, ALostReadResponseIsAnImpliedNak) {
  QpPair pair;
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 4'096)});
  pair.run(losing({2}));
  EXPECT_EQ(losses(pair.a), (Counts{{"implied_nak_seq_err", 1}}));
  EXPECT_EQ(losses(pair.b), (Counts{{"duplicate_request", 1}}));
}

TEST(Counters, NoReceivePostedIsAnRnrNak) {
  QpPair pair({.rnr_retry = 0});
  pair.a.post_send(send_wr(1, WrOpcode::kSend), std::array{pair.a.sge(0, 8)});
  pair.run();
  EXPECT_EQ(losses(pair.a), (Counts{{"rnr_nak_retry_err", 1}}));
  EXPECT_EQ(losses(pair.b), Counts{});
}

TEST(Counters, AreAddedUpByName) {
  RoceCounters sum{.requests_sent = 3, .packet_seq_err = 1};
  sum += {.requests_sent = 4, .rx_icrc_encapsulated = 2};
  EXPECT_EQ(sum.requests_sent, 7U);
  EXPECT_EQ(sum.packet_seq_err, 1U);
  EXPECT_EQ(sum.rx_icrc_encapsulated, 2U);
}

}  // namespace
}  // namespace uroce::test
