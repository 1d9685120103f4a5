// A worker with two ports: each is a card of its own.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

#include "dataplane/wire/build.h"
#include "tests/reasons/reasons.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::test {
namespace {

using Link = std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>>;

TEST(PortsTest, ADatagramQueuePairTakesNothingThatArrivesAtAnotherPort) {
  QpPair pair({.a = {.type = QpType::kUd}, .b = {.qpn = 19, .type = QpType::kUd}});
  std::array<Link, 2> links{make_link({}), make_link({})};
  Worker worker({.ports = {links[0].second.get(), links[1].second.get()}, .keys = &pair.b.keys()});
  const std::array<const char*, 2> addresses{"10.0.0.2", "10.0.1.2"};
  worker.set_addresses(0, {parse_ip(addresses[0]).value()});
  worker.set_addresses(1, {parse_ip(addresses[1]).value()});
  worker.add_qp(pair.b.qp());  // of port 0
  for (std::uint64_t id = 0; id < 2; ++id) {
    pair.b.post_recv(id, std::array{pair.b.sge(0, 100)});
  }
  const auto arrive = [&](std::size_t port) {
    Path path = pair.attributes(true).path;
    path.destination_gid = parse_ip(addresses.at(port)).value();
    Frame* frame = nullptr;
    ASSERT_EQ(links.at(port).first->allocate(&frame, 1), 1U);
    FrameWriter writer(*frame, FrameTemplate(path), {.opcode = Opcode::kUdSendOnly, .dest_qpn = 19},
                       0, 1);
    writer.finish();
    ASSERT_EQ(links.at(port).first->tx_burst(0, &frame, 1, 0), 1U);
    while (worker.poll(1)) {
    }
  };
  arrive(1);
  EXPECT_FALSE(pair.b.poll_recv());
  EXPECT_EQ(worker.counters().drops[Drop::kUnknownQp], 1U);
  arrive(0);
  EXPECT_TRUE(pair.b.poll_recv());
}

}  // namespace
}  // namespace uroce::test
