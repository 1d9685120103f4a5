// Selective acknowledgements, between uroces: the holes that a SACK shows are retransmitted at
// once.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "dataplane/qp/recovery/sack_scoreboard.h"
#include "dataplane/wire/sack.h"
#include "tests/qp/rig.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

constexpr std::size_t kPacket = 1'024;
constexpr std::uint32_t kFirst = 100;  // PairConfig::psn_a

class SelectiveAcks : public ::testing::Test {
 protected:
  SelectiveAcks() { pair_.a.may_buffer = pair_.b.may_buffer = true; }

  void write(std::size_t packets) {
    pair_.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair_.b, 0),
                      std::array{pair_.a.sge(0, packets * kPacket)});
  }

  // Delivers all that `a` has to send, except the PSNs in `lost`. Returns the PSNs in order.
  std::vector<std::uint32_t> to_b(const std::vector<std::uint32_t>& lost = {}) {
    std::vector<std::uint32_t> psns;
    for (auto frames = pair_.transmit(pair_.a); !frames.empty(); frames = pair_.transmit(pair_.a)) {
      for (auto& frame : frames) {
        EXPECT_EQ(parse(frame->frame), Drop::kNone);
        const std::uint32_t psn = frame->frame.packet.psn;
        psns.push_back(psn);
        if (std::find(lost.begin(), lost.end(), psn) == lost.end()) {
          pair_.give(pair_.b, std::move(frame));
        }
      }
    }
    return psns;
  }

  // Delivers all that `b` has to send to `a`. Returns the number of SACKs among it.
  int to_a() {
    int sacks = 0;
    for (auto& frame : pair_.transmit(pair_.b)) {
      EXPECT_EQ(parse(frame->frame), Drop::kNone);
      sacks += frame->frame.packet.opcode == Opcode::kSack ? 1 : 0;
      pair_.give(pair_.a, std::move(frame));
    }
    return sacks;
  }

  Drop request(std::span<const std::byte> payload) {
    const auto frame = pair_.forge(pair_.b, {.opcode = Opcode::kSackRequest}, payload);
    return pair_.deliver(pair_.b, *frame);
  }
  Drop request() { return request(sack_request()); }

  Drop sack(std::uint32_t psn, std::uint32_t serial, const std::vector<std::uint32_t>& received) {
    Sack sack{.serial = serial};
    for (const std::uint32_t place : received) {
      sack.received.set(place);
      sack.psns = std::max(sack.psns, place + 1);
    }
    std::array<std::byte, kSackBytesMax> payload;
    const std::size_t length = write_sack(sack, payload);
    const auto frame = pair_.forge(pair_.a, {.opcode = Opcode::kSack, .psn = psn},
                                   std::span(payload).first(length));
    return pair_.deliver(pair_.a, *frame);
  }

  QpPair pair_;
};

using Psns = std::vector<std::uint32_t>;

TEST_F(SelectiveAcks, WithoutSacksARoundTripClosesOneHole) {
  write(20);
  (void)to_b({102, 105, 110});
  EXPECT_EQ(to_a(), 0) << "no SACK was requested";
  EXPECT_EQ(to_b(), Psns{102});
}

TEST_F(SelectiveAcks, AllHolesAreClosedInOneRoundTrip) {
  EXPECT_EQ(request(), Drop::kNone);
  EXPECT_EQ(to_a(), 1) << "an answer, so that the request isn't repeated";
  write(20);
  (void)to_b({102, 105, 106, 110});
  EXPECT_EQ(to_a(), 1);
  EXPECT_EQ(to_b(), (Psns{102, 105, 106, 110}));
  (void)to_a();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
  EXPECT_EQ(pair_.a.qp().counters().resends_single, 4U);
  EXPECT_EQ(pair_.a.qp().counters().sacks_handled, 2U);
  EXPECT_EQ(pair_.b.qp().counters().sacks_sent, 2U);
}

// The SACK shows packets that were sent after the retransmission of a hole, so that was lost, too.
TEST_F(SelectiveAcks, ALostRetransmissionIsRepeatedWithoutATimer) {
  (void)request();
  (void)to_a();
  write(20);
  (void)to_b({105});
  write(20);
  (void)to_a();
  EXPECT_EQ(to_b({105, 130}).front(), 105U);
  EXPECT_EQ(to_a(), 1);
  EXPECT_EQ(to_b(), (Psns{105, 130}));
}

// Each is acknowledged alone, as by a peer that buffers nothing; but the SACKs of this one have
// shown that it does.
TEST_F(SelectiveAcks, AdjacentHolesDoNotCauseGoingBack) {
  (void)request();
  (void)to_a();
  write(300);
  Psns lost;
  for (std::uint32_t psn = kFirst + 10; psn < kFirst + 20; ++psn) {
    lost.push_back(psn);
  }
  (void)to_b(lost);
  (void)to_a();
  auto frames = pair_.transmit(pair_.a);
  ASSERT_EQ(frames.size(), lost.size());
  for (auto& frame : frames) {
    pair_.give(pair_.b, std::move(frame));
    (void)to_a();
  }
  EXPECT_TRUE(pair_.a.poll_send().has_value());
  EXPECT_EQ(pair_.a.qp().counters().resends_gone_back, 0U);
  EXPECT_EQ(pair_.a.qp().counters().requests_resent, lost.size());
}

// More holes than are retransmitted at a time: the window stays open for packets that the peer
// buffers, and the other holes follow.
TEST_F(SelectiveAcks, ManyHolesAreClosedInAFewRoundTrips) {
  (void)request();
  (void)to_a();
  write(500);
  Psns lost;
  for (std::uint32_t psn = kFirst; psn < kFirst + 480; psn += 10) {
    lost.push_back(psn);
  }
  (void)to_b(lost);
  for (int trips = 0; trips < 2; ++trips) {
    (void)to_a();
    (void)to_b();
  }
  (void)to_a();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
  EXPECT_EQ(pair_.a.qp().counters().requests_resent, lost.size());
}

// Sends as far as the peer buffers packets, and no farther: the peer would discard the rest.
TEST_F(SelectiveAcks, SendsNoFartherThanThePeerBuffers) {
  (void)request();
  (void)to_a();
  write(1'000);
  Psns sent;
  for (int trips = 0; trips < 8; ++trips) {
    for (const std::uint32_t psn : to_b({kFirst})) {
      sent.push_back(psn);
    }
    (void)to_a();
  }
  EXPECT_EQ(*std::max_element(sent.begin(), sent.end()), kFirst + OutOfOrderPackets::kMax - 1);
  EXPECT_EQ(pair_.b.qp().out_of_order(true), OutOfOrderPackets::kMax - 1);
}

// The round trip of a packet that was buffered until its hole was closed isn't a sample of the
// path.
TEST_F(SelectiveAcks, AHoleIsNoRoundTripSample) {
  (void)request();
  (void)to_a();
  write(20);
  (void)to_b();
  pair_.now += 50'000;
  (void)to_a();
  write(20);
  (void)to_b({125});
  pair_.now += 5'000'000;
  (void)to_a();
  (void)to_b();
  (void)to_a();
  write(20);
  (void)to_b();
  EXPECT_LT(pair_.a.qp().deadline() - pair_.now, 1'000'000U) << "the time until the probe";
}

// A READ request uses one PSN on the wire; the rest of its PSNs are for its responses.
TEST_F(SelectiveAcks, ALostReadRequestAmongWrites) {
  (void)request();
  (void)to_a();
  write(5);
  pair_.a.post_send(rdma_wr(2, WrOpcode::kRdmaRead, pair_.b, 0),
                    std::array{pair_.a.sge(500'000, 3 * kPacket)});
  write(5);
  EXPECT_EQ(to_b({101, 105}), (Psns{100, 101, 102, 103, 104, 105, 108, 109, 110, 111, 112}));
  EXPECT_EQ(to_a(), 1);
  EXPECT_EQ(to_b(), (Psns{101, 105}));
}

// The peer has executed a READ whose response was lost: the SACK doesn't show the request as
// missing, but the response must still be requested again.
TEST_F(SelectiveAcks, ALostReadResponseIsStillRequestedAgain) {
  pair_.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair_.b, 0),
                    std::array{pair_.a.sge(500'000, kPacket)});
  write(3);
  EXPECT_EQ(to_b({102}), (Psns{100, 101, 102, 103}));
  for (auto& frame : pair_.transmit(pair_.b)) {
    EXPECT_EQ(parse(frame->frame), Drop::kNone);
    if (frame->frame.packet.opcode != Opcode::kRcReadResponseOnly) {
      pair_.give(pair_.a, std::move(frame));
    }
  }
  EXPECT_EQ(sack(102, 1, {1}), Drop::kNone);
  EXPECT_EQ(to_b(), (Psns{100, 102}));
  pair_.run();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

// Packets that the peer has buffered don't fill the window.
TEST_F(SelectiveAcks, TheWindowContinuesBeyondAHole) {
  (void)request();
  (void)to_a();
  write(700);
  EXPECT_EQ(to_b({kFirst}).size(), Requester::kWindowPackets);
  (void)to_a();
  EXPECT_EQ(to_b().size(), 1 + 700 - Requester::kWindowPackets);
  (void)to_a();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

TEST_F(SelectiveAcks, RepeatedLossCausesOneRequest) {
  int requests = 0;
  int sacks = 0;
  std::vector<std::uint32_t> left;
  for (std::uint32_t psn = kFirst; psn < kFirst + 600; psn += 15) {
    left.push_back(psn);
  }
  const auto lose_some = [&](const Packet& packet, bool to_b) {
    requests += packet.opcode == Opcode::kSackRequest ? 1 : 0;
    sacks += packet.opcode == Opcode::kSack ? 1 : 0;
    const auto found = std::find(left.begin(), left.end(), packet.psn);
    if (!to_b || packet.opcode == Opcode::kSackRequest || found == left.end()) {
      return false;
    }
    left.erase(found);
    return true;
  };
  for (int i = 0; i < 30; ++i) {
    write(20);
    pair_.run(lose_some);
    ASSERT_TRUE(pair_.a.poll_send().has_value());
  }
  EXPECT_EQ(requests, 1);
  EXPECT_GT(sacks, 1);
}

// A card of another vendor drops the request, which isn't repeated any number of times.
TEST_F(SelectiveAcks, APeerThatDoesNotAnswerIsAskedAFewTimesOnly) {
  std::uint32_t requests = 0;
  std::uint32_t newest = kFirst;
  for (int i = 0; i < 200; ++i) {
    write(20);
    pair_.run([&](const Packet& packet, bool to_b) {
      const bool is_request = packet.opcode == Opcode::kSackRequest;
      requests += is_request ? 1 : 0;
      const bool lost = to_b && !is_request && packet.psn == newest + 3;
      newest += lost ? 20 : 0;
      return is_request || lost;
    });
    ASSERT_TRUE(pair_.a.poll_send().has_value());
  }
  EXPECT_EQ(requests, SackScoreboard::kRequestsMax);
}

TEST_F(SelectiveAcks, OtherVendorsPacketsOfTheseOpcodesAreDropped) {
  const std::array<std::byte, 12> other{};
  EXPECT_EQ(request(other), Drop::kUnknownOpcode);
  const auto frame = pair_.forge(pair_.a, {.opcode = Opcode::kSack}, other);
  EXPECT_EQ(pair_.deliver(pair_.a, *frame), Drop::kUnknownOpcode);
  EXPECT_EQ(to_a(), 0);
}

TEST_F(SelectiveAcks, GoBackNIgnoresTheseOpcodes) {
  pair_.a.recovery = pair_.b.recovery = Recovery::kGoBackN;
  EXPECT_EQ(request(), Drop::kUnknownOpcode);
  EXPECT_EQ(sack(kFirst, 1, {1}), Drop::kUnknownOpcode);
}

// Anyone who can send packets with the peer's address can forge a SACK: it is believed only about
// packets that were sent, and completes nothing.
TEST_F(SelectiveAcks, AForgedSackDoesNoHarm) {
  write(20);
  (void)pair_.transmit(pair_.a);
  EXPECT_EQ(sack(kFirst, 0x7FFF'FFFF, {500}), Drop::kStaleResponse) << "never sent";
  EXPECT_EQ(sack(kFirst + 0x80'0000, 0x7FFF'FFFF, {1}), Drop::kStaleResponse) << "far away";
  EXPECT_TRUE(pair_.transmit(pair_.a).empty());
  Psns all;
  for (std::uint32_t place = 0; place < 20; ++place) {
    all.push_back(place);
  }
  EXPECT_EQ(sack(kFirst, 3, all), Drop::kNone) << "earlier forgeries don't block it";
  EXPECT_FALSE(pair_.a.poll_send().has_value());
  pair_.run();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

TEST_F(SelectiveAcks, AnOldSackIsDropped) {
  write(20);
  (void)pair_.transmit(pair_.a);
  EXPECT_EQ(sack(kFirst, 2, {1, 2, 3}), Drop::kNone);
  EXPECT_EQ(to_b(), Psns{kFirst});
  EXPECT_EQ(sack(kFirst, 1, {3}), Drop::kStaleResponse);
  EXPECT_TRUE(pair_.transmit(pair_.a).empty());
}

// The receiving end of XRC gets no responses, and the sending end no requests.
TEST(SelectiveAcksOfXrc, GoOneWay) {
  const auto request = sack_request();
  const Bytes payload(request.begin(), request.end());
  for (const bool receives : {false, true}) {
    QpRig rig({.type = receives ? QpType::kXrcRecv : QpType::kXrcSend});
    (void)rig.receive({.opcode = Opcode::kSackRequest, .dest_qpn = QpRig::kQpn}, payload);
    EXPECT_EQ(rig.last_drop(), receives ? Drop::kNone : Drop::kWrongQpType);
    (void)rig.receive({.opcode = Opcode::kSack, .dest_qpn = QpRig::kQpn}, payload);
    EXPECT_EQ(rig.last_drop(), receives ? Drop::kWrongQpType : Drop::kUnknownOpcode);
  }
}

TEST_F(SelectiveAcks, PacketsThatThePeerHadToDiscardAreSentAgain) {
  (void)request();
  (void)to_a();
  write(20);
  (void)to_b({105});
  (void)to_a();
  pair_.drop_out_of_order(pair_.b);
  pair_.run();
  EXPECT_TRUE(pair_.a.poll_send().has_value());
}

TEST_F(SelectiveAcks, AQueuePairInErrorSendsNoSacks) {
  (void)request();
  pair_.b.to_error();
  EXPECT_TRUE(pair_.transmit(pair_.b).empty());
  EXPECT_EQ(request(), Drop::kWrongQpState);
}

}  // namespace
}  // namespace uroce::test
