// Frames between two queue pairs of one port: they are turned round inside the daemon, all of them
// and in order.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

constexpr const char* kAddress = "10.0.0.1";

// Both ends of a pair behind one worker, on one port.
class Hairpin {
 public:
  explicit Hairpin(const PairConfig& config = {}, const LinkConfig& link = {})
      : ports(make_link(link)),
        pair(config),
        worker({.ports = {ports.first.get()}, .keys = &pair.a.keys()}) {
    reconnect(pair.a, true);
    reconnect(pair.b, false);
    worker.set_addresses(0, {parse_ip(kAddress).value()});
    worker.add_qp(pair.a.qp());
    worker.add_qp(pair.b.qp());
  }
  void settle() {
    while (worker.poll(++now_)) {
    }
  }

  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports;
  QpPair pair;
  Worker worker;

 private:
  void reconnect(Endpoint& end, bool of_a) {
    QpAttributes attributes = pair.attributes(of_a);
    attributes.path.destination_mac = ports.first->info().mac;
    attributes.path.destination_gid = attributes.path.source_gid = parse_ip(kAddress).value();
    end.modify(attributes, kQpMaskPath);
  }

  Time now_ = 0;
};

TEST(Hairpin, FramesToTheOwnAddressNeverReachTheWire) {
  Hairpin own;
  QpPair& pair = own.pair;
  // b's memory isn't in a's key table, so the answer is a NAK; all that matters here is that it
  // arrives.
  const abi::Sge sge = pair.a.sge(0, 8);
  pair.a.post_send(rdma_wr(5, abi::WrOpcode::kRdmaWrite, pair.b, 0), {&sge, 1});
  pair.a.ring(0);
  own.worker.schedule(pair.a.qp());
  own.settle();
  EXPECT_TRUE(pair.a.poll_send());
  EXPECT_EQ(own.ports.first->counters().tx_frames, 0U);
  EXPECT_GE(own.worker.counters().rx_frames, 2U);
}

// Also on a port that sends several bursts per turn. An unreliable connection takes each message as
// it comes, so its receives show the order.
TEST(Hairpin, FramesToTheOwnAddressKeepTheirOrder) {
  constexpr std::uint32_t kMessages = 1'024;
  PairConfig config;
  for (EndpointConfig* end : {&config.a, &config.b}) {
    end->type = QpType::kUc;
    end->queues = {.send_entries = kMessages, .recv_entries = kMessages, .cq_entries = kMessages};
  }
  Hairpin own(config, {.wire_entries = 1'024, .frames = 8'192, .turn_burst = 64, .turn_bursts = 4});
  QpPair& pair = own.pair;
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    pair.b.post_recv(i, {});
    pair.a.post_send(send_wr(i, abi::WrOpcode::kSendWithImm), {});
  }
  pair.a.ring(0);
  own.worker.schedule(pair.a.qp());
  own.settle();
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    const auto received = pair.b.poll_recv();
    ASSERT_TRUE(received.has_value()) << i;
    ASSERT_EQ(received->wr_id, i);
  }
  EXPECT_EQ(own.ports.first->counters().tx_frames, 0U);
}

}  // namespace
}  // namespace uroce::test
