// Losses around READs: of their requests, of their responses, and of what repairs those.

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "tests/unit/qp/qp_pair.h"
#include "tests/unit/qp/recovery/round_trip_sample.h"

namespace uroce::test {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

constexpr std::size_t kFourPackets = 4'096;

// A peer that buffers nothing lost the request of one of many READs. Each takes several PSNs; not
// each that follows is asked for by itself.
TEST(ReadRecovery, GoesBackWithAPeerThatBuffersNothing) {
  constexpr std::uint64_t kOutstanding = 16;
  constexpr std::uint64_t kReads = 64;
  QpPair pair({.max_rd_atomic = kOutstanding});
  pair.a.may_buffer = true;
  std::uint64_t posted = 0;
  const auto post = [&] {
    pair.a.post_send(rdma_wr(posted++, WrOpcode::kRdmaRead, pair.b, 0),
                     std::array{pair.a.sge(0, 2'000)});
  };
  while (posted < kOutstanding) {
    post();
  }
  auto requests = pair.transmit(pair.a);
  requests.erase(requests.begin());  // lost
  for (std::uint64_t done = 0; done < kReads;) {
    for (auto& request : requests) {
      pair.give(pair.b, std::move(request));
    }
    for (auto& response : pair.transmit(pair.b)) {
      pair.give(pair.a, std::move(response));
    }
    for (; pair.a.poll_send(); ++done) {
      if (posted < kReads) {
        post();
      }
    }
    requests = pair.transmit(pair.a);
    ASSERT_TRUE(done == kReads || !requests.empty()) << done << " are done";
  }
  EXPECT_LE(pair.a.qp().counters().resends_single, 3U) << "until that is certain";
  EXPECT_GE(pair.a.qp().counters().resends_gone_back, 1U);
  EXPECT_EQ(pair.a.qp().counters().local_ack_timeout_err, 0U);
}

// How READs got through doesn't show whether the peer buffers anything.
TEST(ReadRecovery, ARepairedReadIsForgottenOnceLaterOnesWereAnswered) {
  QpPair pair;
  pair.a.may_buffer = true;
  sample_round_trip(pair);
  const auto run_and_lose_first = [&pair] {
    const std::uint32_t first = pair.a.qp().send_psn();
    bool lost = false;
    pair.run([&](const Packet& packet, bool to_b) {
      return to_b && packet.psn == first && !std::exchange(lost, true);
    });
    while (pair.a.poll_send()) {
    }
  };
  for (std::uint64_t id = 1; id <= 2; ++id) {
    pair.a.post_send(rdma_wr(id, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, 2'000)});
  }
  run_and_lose_first();
  const std::uint64_t before = pair.a.qp().counters().resends_single;
  pair.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair.b, 0), std::array{pair.a.sge(0, 10'000)});
  run_and_lose_first();
  EXPECT_EQ(pair.a.qp().counters().resends_single - before, 1U) << "it buffers nothing";
}

// The second response to a READ is lost, and so is the repair.
class LostRepair : public ::testing::Test {
 protected:
  LostRepair() {
    pair_.a.may_buffer = true;
    sample_round_trip(pair_);
    first_ = pair_.a.qp().send_psn();
  }

  void read(std::uint64_t id) {
    pair_.a.post_send(rdma_wr(id, WrOpcode::kRdmaRead, pair_.b, 0),
                      std::array{pair_.a.sge(0, kFourPackets)});
  }
  // Until nobody has anything to send; time stands still. `also`: a response that is lost, too.
  void exchange(std::uint32_t also = 0) {
    pair_.exchange([this, also](const Packet& packet, bool to_b) {
      const bool repaired = packet.psn == first_ + 1 && losses_ < 2;
      losses_ += !to_b && repaired ? 1 : 0;
      return !to_b && (repaired || (also != 0 && packet.psn == first_ + also));
    });
  }
  [[nodiscard]] std::uint64_t requested_again() { return pair_.a.qp().counters().resends_single; }

  QpPair pair_{{.max_rd_atomic = 16}};
  std::uint32_t first_ = 0;
  int losses_ = 0;
};

TEST_F(LostRepair, IsNoticedByTheResponsesToALaterRead) {
  read(1);
  exchange();
  ASSERT_EQ(losses_, 2);
  ASSERT_EQ(requested_again(), 1U);
  read(2);
  exchange();
  EXPECT_EQ(requested_again(), 2U);
  EXPECT_TRUE(pair_.a.poll_send().has_value());
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

TEST_F(LostRepair, IsNoticedWhenALaterReadHasAHole) {
  read(1);
  exchange();
  read(2);
  exchange(5);
  EXPECT_EQ(requested_again(), 3U) << "both holes, one after the other";
}

TEST_F(LostRepair, IsNoticedByTheAcknowledgementOfALaterWrite) {
  read(1);
  exchange();
  pair_.a.post_send(rdma_wr(2, WrOpcode::kRdmaWrite, pair_.b, 0),
                    std::array{pair_.a.sge(kFourPackets, 8)});
  exchange();
  EXPECT_EQ(requested_again(), 2U);
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

// The responses to a READ that was requested before the repair, and the acknowledgement of a WRITE.
TEST_F(LostRepair, IsNotNoticedByAnswersToWhatWasRequestedBefore) {
  read(1);
  read(2);
  pair_.a.post_send(rdma_wr(3, WrOpcode::kRdmaWrite, pair_.b, 0),
                    std::array{pair_.a.sge(kFourPackets, 8)});
  auto requests = pair_.transmit(pair_.a);
  for (auto& request : requests) {
    pair_.give(pair_.b, std::move(request));
  }
  for (auto& answer : pair_.transmit(pair_.b)) {
    ASSERT_EQ(parse(answer->frame), Drop::kNone);
    if (answer->frame.packet.psn != first_ + 1) {
      pair_.give(pair_.a, std::move(answer));
      (void)pair_.transmit(pair_.a);  // the repair, which is lost
    }
  }
  EXPECT_EQ(requested_again(), 1U);
  EXPECT_TRUE(pair_.a.qp().out_of_order(false) > 0) << "what comes behind the hole waits";
}

// A READ with more responses than can be buffered: its request was lost, and the probe is the whole
// request once more.
TEST(ReadRecovery, TheProbeOfALongReadRequestsAllOfIt) {
  constexpr std::uint32_t kMtu = 256;
  constexpr std::uint32_t kBytes = (OutOfOrderPackets::kSpan + 100) * kMtu;
  QpPair pair({.path_mtu = kMtu});
  pair.a.may_buffer = true;
  sample_round_trip(pair);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair.b, 0), std::array{pair.a.sge(0, kBytes)});
  ASSERT_EQ(pair.transmit(pair.a).size(), 1U);  // lost
  ASSERT_TRUE(pair.next_deadline());
  const auto probe = pair.transmit(pair.a);
  ASSERT_EQ(probe.size(), 1U);
  ASSERT_EQ(parse(probe[0]->frame), Drop::kNone);
  EXPECT_EQ(probe[0]->frame.packet.reth().length, kBytes);
  EXPECT_EQ(pair.a.qp().counters().tail_probes, 1U);
}

}  // namespace
}  // namespace uroce::test
