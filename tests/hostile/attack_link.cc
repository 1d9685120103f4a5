// What anybody on the link can send: ARP replies and connection requests, as raw frames.
//
//   arp INTERFACE CARD_MAC CARD_IP CLAIMED_IP [A_SECOND]
//   requests INTERFACE CARD_MAC CARD_IP SOURCE_IP PORT [A_SECOND]

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <cstdio>
#include <random>

#include "control/cm/ip_service.h"
#include "control/cm/mad.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::size_t kFrameMax = 512;
constexpr std::uint64_t kASecondDefault = 100'000;
constexpr long kTurnNanoseconds = 1'000'000;
constexpr std::uint64_t kTurnsASecond = 1'000;
constexpr std::uint32_t kGsiQkey = 0x8001'0000;

using Bytes = std::array<std::byte, kFrameMax>;

EtherAddress parse_mac(const char* text) {
  std::array<unsigned, 6> parts{};
  if (std::sscanf(text, "%x:%x:%x:%x:%x:%x", &parts[0], &parts[1], &parts[2], &parts[3], &parts[4],
                  &parts[5]) != 6) {
    give_up(std::string(text) + " is no Ethernet address");
  }
  EtherAddress mac;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mac.bytes[i] = static_cast<std::uint8_t>(parts[i]);
  }
  return mac;
}

Gid address_of(const char* text) {
  const auto address = parse_ip(text);
  if (!address) {
    give_up(std::string(text) + " is no IP address");
  }
  return *address;
}

EtherAddress random_mac(std::mt19937_64& random) {
  EtherAddress mac;
  for (std::uint8_t& byte : mac.bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  mac.bytes[0] = 2;  // locally administered, one station
  return mac;
}

class RawLink {
 public:
  explicit RawLink(const char* interface)
      : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)) {
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_ifindex = static_cast<int>(::if_nametoindex(interface));
    if (!socket_.valid() ||
        ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) {
      give_up(std::string("no raw socket on ") + interface);
    }
  }
  void send(std::span<const std::byte> frame) {
    (void)::send(socket_.get(), frame.data(), frame.size(), 0);  // a full queue drops some
  }

 private:
  UniqueFd socket_;
};

// For ever: `a_second` calls of `send_one`, in bursts of a millisecond.
template <typename SendOne>
[[noreturn]] void flood(std::uint64_t a_second, SendOne&& send_one) {
  say_attacking();
  for (;;) {
    for (std::uint64_t i = 0; i < a_second / kTurnsASecond; ++i) {
      send_one();
    }
    const timespec turn{.tv_sec = 0, .tv_nsec = kTurnNanoseconds};
    ::clock_nanosleep(CLOCK_MONOTONIC, 0, &turn, nullptr);
  }
}

template <typename Object>
void put(Bytes& frame, std::size_t* at, const Object& object) {
  std::memcpy(frame.data() + *at, &object, sizeof(object));
  *at += sizeof(object);
}

// IPv4 only. Returns the frame's length.
std::size_t write_arp_reply(Bytes& frame, const EtherAddress& to, const EtherAddress& from,
                            const Gid& sender, const Gid& target) {
  constexpr std::array<std::uint8_t, 8> kEthernetIpv4Reply{0, 1, 8, 0, 6, 4, 0, 2};
  std::size_t at = 0;
  put(frame, &at, to);
  put(frame, &at, from);
  put(frame, &at, htons(kEtherTypeArp));
  put(frame, &at, kEthernetIpv4Reply);
  put(frame, &at, from);
  put(frame, &at, ipv4_of(sender));
  put(frame, &at, to);
  put(frame, &at, ipv4_of(target));
  return at;
}

}  // namespace

int flood_with_arp(Arguments arguments) {
  if (arguments.size() < 4) {
    give_up("arp INTERFACE CARD_MAC CARD_IP CLAIMED_IP [A_SECOND]");
  }
  RawLink link(arguments[0]);
  const EtherAddress card = parse_mac(arguments[1]);
  const Gid card_ip = address_of(arguments[2]), claimed = address_of(arguments[3]);
  std::mt19937_64 random(1);
  flood(number(arguments, 4, kASecondDefault), [&] {
    Bytes frame{};
    const std::size_t length = write_arp_reply(frame, card, random_mac(random), claimed, card_ip);
    link.send({frame.data(), length});
  });
}

int flood_with_requests(Arguments arguments) {
  if (arguments.size() < 5) {
    give_up("requests INTERFACE CARD_MAC CARD_IP SOURCE_IP PORT [A_SECOND]");
  }
  RawLink link(arguments[0]);
  std::mt19937_64 random(1);
  Path path;
  path.destination_mac = parse_mac(arguments[1]);
  path.source_mac = random_mac(random);
  path.destination_gid = address_of(arguments[2]);
  path.source_gid = address_of(arguments[3]);
  const auto port = static_cast<std::uint16_t>(number(arguments, 4, 0));
  const control::cm::IpHeader ip{.ipv6 = false,
                                 .source_port = 4000,
                                 .source = path.source_gid,
                                 .destination = path.destination_gid};
  flood(number(arguments, 5, kASecondDefault), [&] {
    control::cm::Req req;
    req.local_id = static_cast<std::uint32_t>(random());
    req.service_id = control::cm::service_id(control::cm::PortSpace::kTcp, port);
    req.ca_guid = random();
    req.qpn = static_cast<std::uint32_t>(random()) & 0xFF'FFFF;
    req.local_response_timeout = req.remote_response_timeout = 20;
    req.max_cm_retries = 15;
    req.path_mtu = 3;
    req.primary.local_gid = path.source_gid;
    req.primary.remote_gid = path.destination_gid;
    req.private_data = control::cm::with_ip_header(ip, {});
    const auto mad = control::cm::build_mad(random(), req);
    Bytes bytes{};
    Frame frame;
    frame.data = bytes.data();
    frame.capacity = kFrameMax;
    const Headers headers{.opcode = Opcode::kUdSendOnly,
                          .dest_qpn = 1,
                          .psn = 0,
                          .deth = {.qkey = kGsiQkey, .source_qpn = 1}};
    FrameWriter writer(frame, FrameTemplate(path), headers, mad.size(), 0);
    writer.append(mad.data(), mad.size());
    writer.finish();
    link.send({frame.data, frame.length});
  });
}

}  // namespace uroce::hostile
