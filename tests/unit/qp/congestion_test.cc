// Congestion notifications: which marked packets cause one, and the effect of received ones.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dataplane/wire/ecn.h"
#include "tests/qp/rig.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::test {
namespace {

using abi::WrOpcode;

constexpr std::size_t kEthernet = 14;
constexpr Duration kInterval = kDefaultCongestion.cnp_interval;

class Congestion : public testing::Test {
 protected:
  void given_a_write() {
    const abi::Sge sge = pair_.a.sge(0, 8);
    pair_.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair_.b, 64), {&sge, 1});
    pair_.a.ring(pair_.now);
  }

  // Packets that `from` sends now arrive marked.
  void deliver_marked(Endpoint& from) {
    for (const auto& frame : pair_.transmit(from)) {
      write_ecn(frame->frame.data + kEthernet, Ecn::kCongested);
      EXPECT_EQ(pair_.deliver(&from == &pair_.a ? pair_.b : pair_.a, *frame), Drop::kNone);
    }
  }

  // Whether `from` sends a notification now; everything that it sends is lost.
  bool notifies(Endpoint& from) {
    bool found = false;
    for (const auto& frame : pair_.transmit(from)) {
      EXPECT_EQ(parse(frame->frame), Drop::kNone);
      found = found || frame->frame.packet.opcode == Opcode::kCnp;
    }
    return found;
  }

  Drop deliver_notification(Endpoint& to,
                            const Headers& headers = {.opcode = Opcode::kCnp, .becn = true}) {
    const auto frame = pair_.forge(to, headers, std::array<std::byte, 16>{});
    return pair_.deliver(to, *frame);
  }

  QpPair pair_;
};

TEST_F(Congestion, AMarkedRequestIsAnsweredWithANotification) {
  given_a_write();
  deliver_marked(pair_.a);
  const auto frames = pair_.transmit(pair_.b);
  ASSERT_EQ(frames.size(), 2U) << "the notification and the acknowledgement";
  ASSERT_EQ(parse(frames[0]->frame), Drop::kNone);
  const Packet& packet = frames[0]->frame.packet;
  EXPECT_EQ(packet.opcode, Opcode::kCnp);
  EXPECT_EQ(packet.dest_qpn, pair_.a.qp().config().qpn);
  EXPECT_EQ(packet.tos, 48U << kDscpShift) << "a traffic class of its own, not ECN-capable";
  EXPECT_TRUE(packet.becn);
  EXPECT_EQ(packet.payload_length, 16U);
  EXPECT_EQ(pair_.b.qp().counters().np_ecn_marked_roce_packets, 1U);
  EXPECT_EQ(pair_.b.qp().counters().np_cnp_sent, 1U);
  EXPECT_FALSE(pair_.b.qp().has_work());

  EXPECT_EQ(pair_.deliver(pair_.a, *frames[0]), Drop::kNone);
  EXPECT_EQ(pair_.a.qp().counters().rp_cnp_handled, 1U);
}

TEST_F(Congestion, AtMostOneIsSentPerInterval) {
  for (int i = 0; i < 3; ++i) {
    given_a_write();
    deliver_marked(pair_.a);
    EXPECT_EQ(notifies(pair_.b), i == 0);
  }
  pair_.now += kInterval - 1;
  given_a_write();
  deliver_marked(pair_.a);
  EXPECT_FALSE(notifies(pair_.b));
  pair_.now += 1;
  EXPECT_FALSE(notifies(pair_.b)) << "nothing is marked any more";
  given_a_write();
  deliver_marked(pair_.a);
  EXPECT_TRUE(notifies(pair_.b));
  EXPECT_EQ(pair_.b.qp().counters().np_ecn_marked_roce_packets, 5U);
  EXPECT_EQ(pair_.b.qp().counters().np_cnp_sent, 2U);
}

TEST_F(Congestion, AMarkedReadResponseIsAnsweredToo) {
  const abi::Sge sge = pair_.a.sge(0, 5'000);
  pair_.a.post_send(rdma_wr(1, WrOpcode::kRdmaRead, pair_.b, 0), {&sge, 1});
  pair_.a.ring(pair_.now);
  for (const auto& frame : pair_.transmit(pair_.a)) {
    EXPECT_EQ(pair_.deliver(pair_.b, *frame), Drop::kNone);
  }
  deliver_marked(pair_.b);
  EXPECT_TRUE(notifies(pair_.a));
  EXPECT_EQ(pair_.a.qp().counters().np_ecn_marked_roce_packets, 5U);
}

TEST_F(Congestion, APacketThatIsNotThePeersCausesNone) {
  const auto frame =
      pair_.forge(pair_.b, {.opcode = Opcode::kRcWriteOnly, .pkey = 3, .psn = 100}, {});
  write_ecn(frame->frame.data + kEthernet, Ecn::kCongested);
  EXPECT_EQ(pair_.deliver(pair_.b, *frame), Drop::kBadPkey);
  EXPECT_FALSE(notifies(pair_.b));
  EXPECT_EQ(pair_.b.qp().counters().np_ecn_marked_roce_packets, 0U);
}

TEST_F(Congestion, AQueuePairInErrorSendsNoNotification) {
  given_a_write();
  deliver_marked(pair_.a);
  pair_.b.to_error(pair_.now);
  EXPECT_FALSE(notifies(pair_.b));
}

TEST_F(Congestion, StaleNotificationsDoNothingButCount) {
  EXPECT_EQ(deliver_notification(pair_.a), Drop::kStaleResponse) << "nothing was sent yet";
  given_a_write();
  pair_.exchange();
  pair_.now += 2 * kNanosecondsPerSecond;
  EXPECT_EQ(deliver_notification(pair_.a), Drop::kStaleResponse);
  EXPECT_EQ(deliver_notification(pair_.a, {.opcode = Opcode::kCnp, .pkey = 3}), Drop::kBadPkey);
  pair_.a.to_error(pair_.now);
  EXPECT_EQ(deliver_notification(pair_.a), Drop::kWrongQpState);
  EXPECT_EQ(pair_.a.qp().counters().rp_cnp_handled, 0U);
  EXPECT_EQ(pair_.a.qp().counters().rp_cnp_ignored, 4U);
}

TEST(CongestionOfOthers, AForgedNotificationDoesNothingButCount) {
  QpRig rig;
  EXPECT_EQ(rig.receive({.opcode = Opcode::kCnp, .becn = true}, Bytes(16), true), Step::kDone);
  EXPECT_EQ(rig.last_drop(), Drop::kWrongSource) << "its source isn't the peer";
  EXPECT_EQ(rig.qp().counters().rp_cnp_ignored, 1U);
}

TEST(CongestionOfOthers, AUdQueuePairDropsNotifications) {
  QpRig::Options options;
  options.type = QpType::kUd;
  QpRig rig(options);
  EXPECT_EQ(rig.receive({.opcode = Opcode::kCnp, .becn = true}, Bytes(16)), Step::kDone);
  EXPECT_EQ(rig.last_drop(), Drop::kWrongQpType);
}

// The TOS that a queue pair writes into the IP header, given this TOS of its path.
std::uint8_t sent_tos(bool shares_network, std::uint8_t tos) {
  PairConfig config;
  config.a.shares_network = shares_network;
  QpPair pair(config);
  QpAttributes attributes = pair.attributes(true);
  attributes.path.tos = tos;
  pair.a.modify(attributes, kQpMaskPath);
  const abi::Sge sge = pair.a.sge(0, 8);
  pair.a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair.b, 64), {&sge, 1});
  pair.a.ring(pair.now);
  const auto frames = pair.transmit(pair.a);
  EXPECT_EQ(parse(frames.at(0)->frame), Drop::kNone);
  return frames[0]->frame.packet.tos;
}

TEST(EcnOfWhatIsSent, IsSetOnSharedNetworks) {
  EXPECT_EQ(sent_tos(true, 0x68), 0x6A);
  EXPECT_EQ(sent_tos(true, 0x69), 0x69) << "as the program wants it";
  EXPECT_EQ(sent_tos(false, 0x68), 0x68);
}

// A long message on a shared network: its first window is 32 packets.
class Losing : public testing::Test {
 protected:
  static constexpr std::size_t kFirstWindow = 32;
  static constexpr std::size_t kLong = 64 << 10U;

  void given_a_burst(const CongestionSettings& settings = kDefaultCongestion) {
    PairConfig config;
    config.a.shares_network = true;
    config.a.congestion = &settings;
    pair_.emplace(config);
    pair_->a.post_send(rdma_wr(1, WrOpcode::kRdmaWrite, pair_->b, 0),
                       std::array{pair_->a.sge(0, kLong)});
    burst_ = pair_->transmit(pair_->a);
    ASSERT_EQ(burst_.size(), kFirstWindow);
  }

  void deliver(std::size_t number) { (void)pair_->deliver(pair_->b, *burst_[number]); }
  void deliver_answers() {
    for (const auto& frame : pair_->transmit(pair_->b)) {
      (void)pair_->deliver(pair_->a, *frame);
    }
  }
  // The number of packets sent once the timer has expired, with everything sent before that lost.
  std::size_t sent_after_the_timeout() {
    std::size_t sent = 0;
    while (pair_->a.qp().counters().local_ack_timeout_err == 0 && pair_->next_deadline()) {
      sent = pair_->transmit(pair_->a).size();
    }
    return sent;
  }

  std::optional<QpPair> pair_;
  std::vector<std::unique_ptr<HeapFrame>> burst_;
};

// The second packet was lost, and the peer has discarded those after it.
TEST_F(Losing, GoingBackHalvesTheWindow) {
  const CongestionSettings nobodys{.mode = CongestionMode::kNone};
  for (const auto& [settings, sent] :
       {std::pair{&kDefaultCongestion, kFirstWindow / 2 + 1}, {&nobodys, kFirstWindow + 2}}) {
    given_a_burst(*settings);
    deliver(0);
    deliver(2);
    deliver_answers();
    for (const auto& frame : pair_->transmit(pair_->a)) {
      (void)pair_->deliver(pair_->b, *frame);
    }
    deliver_answers();
    EXPECT_EQ(pair_->a.qp().counters().resends_gone_back, 1U);
    EXPECT_EQ(pair_->transmit(pair_->a).size(), sent);
  }
}

TEST_F(Losing, ATimeoutAfterAGapHalvesTheWindow) {
  given_a_burst();
  deliver(0);
  deliver(2);
  deliver_answers();
  EXPECT_EQ(sent_after_the_timeout(), (kFirstWindow + 1) / 2);
}

// The peer may have been busy, or the timer is shorter than the round trip.
TEST_F(Losing, ATimeoutAloneLeavesTheWindow) {
  given_a_burst();
  EXPECT_EQ(sent_after_the_timeout(), kFirstWindow);
}

}  // namespace
}  // namespace uroce::test
