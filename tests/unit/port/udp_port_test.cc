// Two udp ports on addresses of the loopback interface: frames arrive as if sent over a wire.

#include "dataplane/port/udp/udp_port.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "dataplane/port/udp/udp_spec.h"
#include "dataplane/wire/ecn.h"
#include "dataplane/wire/layout.h"
#include "tests/wire/sample.h"

namespace uroce {
namespace {

using test::Bytes;
using test::Random;

// Addresses of this process and no other: all of 127.0.0.0/8 is local.
Gid local_address(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return *parse_ip("127." + std::to_string(64 + (pid >> 8U) % 128) + "." +
                   std::to_string(pid % 256) + "." + std::to_string(last));
}

std::unique_ptr<Port> open_at(const Gid& address, std::uint16_t queues = 1,
                              const std::string& spec = "udp") {
  auto port = make_port(spec, {.mtu = 4'200, .queues = queues, .addresses = {address}});
  EXPECT_TRUE(port) << (port ? "" : port.error().message);
  return port ? std::move(*port) : nullptr;
}

class UdpPorts : public ::testing::Test {
 protected:
  void join(std::uint16_t queues = 1, const std::string& spec = "udp") {
    near_ = open_at(near_address_, queues, spec);
    far_ = open_at(far_address_, queues, spec);
    ASSERT_TRUE(near_ && far_);
  }

  Frame* build(std::uint32_t payload, std::uint32_t qpn, std::uint8_t tos = 0) {
    Frame* frame = nullptr;
    EXPECT_EQ(near_->allocate(&frame, 1), 1U);
    Path path;
    path.source_gid = near_address_;
    path.destination_gid = far_address_;
    path.tos = tos;
    path.hop_limit = 33;
    Headers headers{.opcode = Opcode::kRcSendOnly};
    headers.dest_qpn = qpn;
    headers.psn = next_psn_++;
    const Bytes bytes = test::random_bytes(random_, payload);
    FrameWriter writer(*frame, FrameTemplate(path), headers, payload, 0x1234);
    writer.append(bytes.data(), payload);
    writer.finish();
    return frame;
  }

  void send(std::vector<Frame*> frames, std::uint16_t queue = 0) {
    for (const Frame* frame : frames) {
      sent_.emplace_back(frame->data, frame->data + frame->length);
    }
    std::uint32_t done = 0;
    while (done < frames.size()) {
      done += near_->tx_burst(queue, frames.data() + done,
                              static_cast<std::uint32_t>(frames.size()) - done, 0);
    }
  }

  // Loopback delivers before sendmsg() returns.
  std::vector<Frame*> received(std::uint16_t queue = 0) {
    std::vector<Frame*> all;
    std::array<Frame*, kBurstMax> burst;
    std::uint32_t count = 0;
    while ((count = far_->rx_burst(queue, burst.data(), kBurstMax, 0)) > 0) {
      all.insert(all.end(), burst.begin(), burst.begin() + count);
    }
    return all;
  }

  // Everything sent has arrived, in order, and its ICRC is right when checked again.
  void expect_received(const std::vector<Frame*>& frames) {
    constexpr std::size_t kBth = 42;
    ASSERT_EQ(frames.size(), sent_.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_TRUE(frames[i]->icrc_checked);
      frames[i]->icrc_checked = false;
      EXPECT_EQ(parse(*frames[i]), Drop::kNone);
      ASSERT_EQ(frames[i]->length, sent_[i].size());
      EXPECT_TRUE(std::equal(sent_[i].begin() + kBth, sent_[i].end() - kIcrcLength,
                             frames[i]->data + kBth));
      EXPECT_EQ(frames[i]->packet.source_gid(), near_address_);
      EXPECT_EQ(frames[i]->packet.destination_gid(), far_address_);
    }
  }

  const Gid near_address_ = local_address(1), far_address_ = local_address(2);
  std::unique_ptr<Port> near_, far_;
  Random random_{1};
  std::uint32_t next_psn_ = 0;
  std::vector<Bytes> sent_;
};

std::uint16_t ip_id(const Frame& frame) {
  return layout::view<layout::Ipv4>(frame.packet.ip).identification.load();
}

TEST_F(UdpPorts, reports_its_info) {
  join();
  const PortInfo info = near_->info();
  EXPECT_EQ(info.mtu, 4'200U);
  EXPECT_TRUE(info.link_up);
  EXPECT_TRUE(info.resolves_itself);
  EXPECT_FALSE(info.loops_back);
  EXPECT_NE(info.mac, stand_in_mac(near_address_)) << "another host may have the address later";
}

TEST_F(UdpPorts, carries_packets_of_all_sizes_in_order) {
  join();
  for (const std::uint32_t payload : {0U, 1U, 4U, 255U, 1'024U, 4'096U, 4'096U, 4'096U, 17U, 17U}) {
    send({build(payload, 17)});
  }
  expect_received(received());
}

TEST_F(UdpPorts, carries_type_of_service_and_time_to_live) {
  join();
  constexpr std::uint8_t kCongested = 0x6B;  // DSCP 26, CE
  send({build(64, 17, kCongested)});
  const auto frames = received();
  expect_received(frames);
  EXPECT_EQ(frames[0]->packet.tos, kCongested);
  EXPECT_EQ(layout::view<layout::Ipv4>(frames[0]->packet.ip).ttl.load(), 33);
}

TEST_F(UdpPorts, joins_frames_to_one_destination) {
  join();
  std::vector<Frame*> frames;
  for (int i = 0; i < 20; ++i) {
    frames.push_back(build(1'024, 17));
  }
  frames.push_back(build(100, 17));    // shorter: allowed as the last of a call
  frames.push_back(build(1'024, 17));  // longer than the previous one: begins another
  send(frames);
  const auto arrived = received();
  expect_received(arrived);
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    EXPECT_EQ(ip_id(*arrived[i]), i < 21 ? i : 0U);
  }
  EXPECT_EQ(far_->counters().ip_id_solved, 20U);
}

TEST_F(UdpPorts, sends_one_by_one_when_told) {
  join(1, "udp,segments=1");
  send({build(1'024, 17), build(1'024, 17), build(1'024, 17)});
  const auto arrived = received();
  expect_received(arrived);
  EXPECT_EQ(ip_id(*arrived[2]), 0U);
  EXPECT_EQ(far_->counters().ip_id_solved, 0U);
}

// If one call to the kernel returns more than a burst, the rest is kept for the next one.
TEST_F(UdpPorts, hands_out_joined_datagrams_in_bursts) {
  join();
  std::vector<Frame*> frames;
  for (int i = 0; i < 50; ++i) {
    frames.push_back(build(64, 17));
  }
  send(frames);
  std::array<Frame*, kBurstMax> burst;
  ASSERT_EQ(far_->rx_burst(0, burst.data(), 10, 0), 10U);
  EXPECT_FALSE(far_->arm_wait(0));
  auto arrived = received();
  arrived.insert(arrived.begin(), burst.begin(), burst.begin() + 10);
  expect_received(arrived);
  EXPECT_TRUE(far_->arm_wait(0));
}

// The kernel returns several single datagrams per call, but only few joined ones.
TEST_F(UdpPorts, receives_joined_and_single_datagrams_in_order) {
  join();
  constexpr std::uint32_t kSingles = 50;  // each longer than the last, so none is joined
  constexpr std::uint32_t kJoined = 62;
  std::vector<Frame*> frames;
  for (int round = 0; round < 3; ++round) {
    std::vector<Frame*> some;
    for (std::uint32_t i = 0; i < kSingles; ++i) {
      some.push_back(build(100 + 4 * i, 1));
    }
    for (std::uint32_t i = 0; i < kJoined; ++i) {
      some.push_back(build(1'024, 1));
    }
    send(some);
    // Receives part of it before the rest is sent, with frames of a call left over.
    std::array<Frame*, 7> burst;
    const std::uint32_t count = far_->rx_burst(0, burst.data(), burst.size(), 0);
    EXPECT_EQ(count, burst.size());
    frames.insert(frames.end(), burst.begin(), burst.begin() + count);
  }
  for (Frame* frame : received()) {
    frames.push_back(frame);
  }
  expect_received(frames);
  far_->release(frames.data(), static_cast<std::uint32_t>(frames.size()));
}

TEST_F(UdpPorts, wakes_a_worker_that_waits) {
  join();
  pollfd readable{.fd = far_->wait_descriptor(0), .events = POLLIN, .revents = 0};
  EXPECT_TRUE(far_->arm_wait(0));
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  send({build(64, 17)});
  EXPECT_EQ(::poll(&readable, 1, 5'000), 1);
  EXPECT_FALSE(far_->arm_wait(0));
}

TEST_F(UdpPorts, gives_each_worker_its_queue_pairs) {
  join(2);
  send({build(64, 16), build(64, 18)}, 0);
  const auto even = received(0);
  expect_received(even);
  sent_.clear();
  send({build(64, 17)}, 1);
  EXPECT_EQ(received(0).size(), 0U);
  expect_received(received(1));
}

TEST_F(UdpPorts, counts_and_drops_what_it_cannot_send) {
  join();
  Frame* arp = build(64, 17);
  layout::view<layout::Ethernet>(arp->data).type.store(kEtherTypeArp);
  Frame* foreign = build(64, 17);  // from an address that isn't the port's
  foreign->data[14 + 15] ^= std::byte{0x40};
  Frame* good = build(64, 17);
  std::array<Frame*, 3> frames{arp, foreign, good};
  EXPECT_EQ(near_->tx_burst(0, frames.data(), 3, 0), 3U);
  EXPECT_EQ(near_->counters().tx_failed, 2U);
  EXPECT_EQ(near_->counters().tx_frames, 1U);
  EXPECT_EQ(received().size(), 1U);
}

// A frame longer than the MTU of the loopback interface can't be built, so the limit is the pool's.
TEST_F(UdpPorts, drops_datagrams_too_long_for_a_frame) {
  join();
  far_ = nullptr;
  auto port = make_port("udp", {.mtu = 600, .addresses = {far_address_}});
  ASSERT_TRUE(port);
  far_ = std::move(*port);
  send({build(1'024, 17)});
  EXPECT_EQ(received().size(), 0U);
  EXPECT_EQ(far_->counters().rx_missed, 1U);
}

// A socket's buffer is the last queue on the path: after an overflow it marks as a switch does.
TEST_F(UdpPorts, marks_the_next_packet_after_an_overflow) {
  join();
  const auto next_is_marked = [&](Ecn ecn) {
    send({build(64, 17, with_ecn(0, ecn))});
    auto arrived = received();
    EXPECT_EQ(arrived.size(), 1U);
    const bool marked = read_ecn(arrived[0]->data + 14) == Ecn::kCongested;
    EXPECT_EQ(parse(*arrived[0]), Drop::kNone);
    far_->release(arrived.data(), 1);
    return marked;
  };
  for (const Ecn ecn : {Ecn::kNotCapable, Ecn::kCapable0}) {
    const std::uint64_t missed = far_->counters().rx_missed;
    // One datagram per call, so that the kernel joins none, until one finds no room.
    constexpr std::uint32_t kMore = 16 << 10;  // fills any buffer that an ordinary user gets
    for (std::uint32_t i = 0; i < kMore; ++i) {
      Frame* frame = build(i % 2 == 0 ? 1'024 : 64, 17);
      ASSERT_EQ(near_->tx_burst(0, &frame, 1, 0), 1U);
    }
    for (auto arrived = received(); !arrived.empty(); arrived = received()) {
      far_->release(arrived.data(), static_cast<std::uint32_t>(arrived.size()));
    }
    EXPECT_EQ(next_is_marked(ecn), ecn == Ecn::kCapable0);
    EXPECT_GT(far_->counters().rx_missed, missed);
    EXPECT_FALSE(next_is_marked(ecn));
  }
}

TEST_F(UdpPorts, releases_every_frame) {
  join();
  for (int round = 0; round < 3'000; ++round) {
    send({build(64, 17), build(64, 17)});
    auto arrived = received();
    ASSERT_EQ(arrived.size(), 2U) << round;
    far_->release(arrived.data(), 2);
  }
}

// 127.x.y.7 is a local address, as all of 127.0.0.0/8, but has no socket.
TEST_F(UdpPorts, reports_an_unreachable_peer_and_goes_on_sending) {
  join();
  Frame* lost = build(64, 17);
  layout::view<layout::Ipv4>(lost->data + 14).destination[3] = 7;
  ASSERT_EQ(near_->tx_burst(0, &lost, 1, 0), 1U);
  EXPECT_FALSE(near_->arm_wait(0));
  send({build(64, 17)});
  expect_received(received());
  EXPECT_EQ(near_->counters().tx_failed, 0U);
  Frame* error = nullptr;
  ASSERT_EQ(near_->rx_burst(0, &error, 1, 0), 1U);
  EXPECT_EQ(parse(*error), Drop::kNotRoce);
  EXPECT_TRUE(is_host_frame(*error));
  constexpr std::size_t kIcmp = 34, kRepeated = kIcmp + 8, kRepeatedBth = kRepeated + 28;
  EXPECT_EQ(error->data[kIcmp], std::byte{3});      // unreachable:
  EXPECT_EQ(error->data[kIcmp + 1], std::byte{3});  // the port
  EXPECT_EQ(error->data[kRepeated + 19], std::byte{7});
  EXPECT_EQ(error->data[kRepeatedBth + 7], std::byte{17});  // the destination queue pair
  near_->release(&error, 1);
  EXPECT_TRUE(near_->arm_wait(0));
}

TEST_F(UdpPorts, adds_and_removes_addresses) {
  join(2);
  const Gid extra = local_address(4);
  const auto change = [&] {
    far_->take_over(0);
    far_->take_over(1);
  };
  const auto arrive = [&] {
    Frame* frame = build(64, 17);
    layout::view<layout::Ipv4>(frame->data + 14).destination[3] = 4;
    near_->tx_burst(0, &frame, 1, 0);
    std::size_t frames = 0;
    for (int turn = 0; turn < 4; ++turn) {  // an idle socket isn't polled every turn
      frames += received(1).size();
    }
    return frames;
  };
  EXPECT_EQ(arrive(), 0U);
  ASSERT_TRUE(far_->open_address(extra));
  change();
  EXPECT_FALSE(make_port("udp", {.addresses = {extra}})) << "the UDP port is taken";
  EXPECT_EQ(arrive(), 1U);
  far_->close_address(extra);
  change();
  EXPECT_EQ(arrive(), 0U);
  EXPECT_TRUE(make_port("udp", {.addresses = {extra}}));
  far_->close_address(far_address_);
  change();
  EXPECT_EQ(arrive(), 0U) << "a port without addresses";
  EXPECT_EQ(far_->open_address(*parse_ip("192.0.2.77")).error().code, EADDRNOTAVAIL);
}

TEST_F(UdpPorts, knows_the_path_mtu_to_a_peer) {
  join();
  EXPECT_EQ(near_->mtu_to(near_address_, far_address_), 4'200U);
}

TEST(UdpPort, an_address_is_taken_once) {
  for (const std::uint16_t queues : {std::uint16_t{1}, std::uint16_t{2}}) {
    const auto first = open_at(local_address(3), queues);
    const auto second = make_port("udp", {.queues = 2, .addresses = {local_address(3)}});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_NE(second.error().message.find("is taken by port_test (process " +
                                          std::to_string(::getpid()) + "): stop it"),
              std::string::npos)
        << second.error().message;
  }
}

TEST(UdpPort, takes_only_addresses_of_the_machine) {
  for (const char* const address : {"192.0.2.77", "2001:db8::77", "fe80::1:2:3:4"}) {
    const auto port = make_port("udp", {.addresses = {*parse_ip(address)}});
    ASSERT_FALSE(port);
    EXPECT_EQ(port.error().code, EADDRNOTAVAIL) << port.error().message;
    EXPECT_NE(port.error().message.find("isn't an address of this machine"), std::string::npos);
  }
}

TEST(UdpPort, names_what_its_spec_may_be) {
  for (const char* spec :
       {"udp,", "udp,segments=", "udp,segments=0", "udp,segments=65", "udp,segments=2x",
        "udp,mtu=9000", "udp,iface=", "udp,iface=eth0,", "udp,iface=a-name-that-is-too-long"}) {
    EXPECT_FALSE(make_port(spec, {.addresses = {local_address(3)}})) << spec;
  }
  const auto both = parse_udp_spec("udp,iface=eth0,segments=7");
  ASSERT_TRUE(both);
  EXPECT_EQ(both->interface, "eth0");
  EXPECT_EQ(both->segments, 7U);
  EXPECT_EQ(parse_udp_spec("udp,segments=7,iface=eth0")->interface, "eth0");
  EXPECT_EQ(parse_udp_spec("udp")->interface, "");
  EXPECT_FALSE(make_port("udp", {}));
  EXPECT_FALSE(needs_eal("udp"));
  EXPECT_FALSE(needs_eal("udp,segments=1"));
  EXPECT_TRUE(needs_eal("net_af_packet0,iface=eth0"));
}

}  // namespace
}  // namespace uroce
