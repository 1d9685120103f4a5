// Packet sockets to which the kernel gives each worker's frames, on the lo of a network namespace.

#include "dataplane/port/ethdev/packet_fanout.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/frame_writer.h"

namespace uroce {
namespace {

constexpr std::uint16_t kWorkers = 3;
// The group's number; the mode that the driver asks for (a hash of addresses) is in the upper bits.
constexpr std::uint32_t kGroup = 7;
constexpr std::uint32_t kByHash =
    kGroup |
    std::uint32_t{PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_DEFRAG | PACKET_FANOUT_FLAG_ROLLOVER}
        << 16U;

int index_of_lo() { return static_cast<int>(::if_nametoindex("lo")); }

// A socket bound to lo that receives everything.
UniqueFd packet_socket() {
  UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_ll lo{};
  lo.sll_family = AF_PACKET;
  lo.sll_protocol = htons(ETH_P_ALL);
  lo.sll_ifindex = index_of_lo();
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&lo), sizeof(lo)), 0);
  return socket;
}

bool join(const UniqueFd& socket) {
  return ::setsockopt(socket.get(), SOL_PACKET, PACKET_FANOUT, &kByHash, sizeof(kByHash)) == 0;
}

bool bring_up_lo() {
  UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq lo{};
  std::strcpy(lo.ifr_name, "lo");
  lo.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &lo) == 0;
}

// Runs `run` in a thread in a network namespace of its own; false if that is refused.
bool in_own_network(const std::function<void()>& run) {
  bool made = false;
  std::thread([&] {
    made = ::unshare(CLONE_NEWNET) == 0 && bring_up_lo();
    if (made) {
      run();
    }
  }).join();
  return made;
}

// The sockets of a port's workers.
class Group {
 public:
  Group() {
    const FanoutByOwner by_owner(kWorkers);
    for (UniqueFd& socket : sockets_) {
      socket = packet_socket();
      EXPECT_TRUE(join(socket)) << std::strerror(errno);
    }
  }

  // The worker that receives a frame sent now; -1: none.
  int receiver_of(const Frame& frame) {
    EXPECT_EQ(::send(sender_.get(), frame.data, frame.length, 0),
              static_cast<ssize_t>(frame.length));
    std::array<pollfd, kWorkers> wanted{};
    for (std::size_t i = 0; i < kWorkers; ++i) {
      wanted[i] = {.fd = sockets_[i].get(), .events = POLLIN, .revents = 0};
    }
    constexpr int kTimeoutMs = 10'000;
    ::poll(wanted.data(), wanted.size(), kTimeoutMs);
    int receiver = -1;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      std::array<std::byte, 2'048> room;
      if (::recv(sockets_[i].get(), room.data(), room.size(), 0) > 0) {
        EXPECT_EQ(receiver, -1) << "two workers received it";
        receiver = static_cast<int>(i);
      }
    }
    return receiver;
  }

 private:
  // Without the copies of outgoing frames that the kernel shows to taps.
  static UniqueFd make_sender() {
    UniqueFd socket = packet_socket();
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)), 0);
    return socket;
  }

  std::array<UniqueFd, kWorkers> sockets_;
  UniqueFd sender_ = make_sender();
};

class PacketFanout : public testing::Test {
 protected:
  const Frame& request(const Path& path, std::uint32_t qpn) {
    frame_->length = 0;
    FrameWriter writer(*frame_, FrameTemplate(path),
                       {.opcode = Opcode::kRcSendOnly, .dest_qpn = qpn, .psn = 5}, 0, 0);
    writer.finish();
    return *frame_;
  }
  static Path path(const char* source, const char* destination, std::uint16_t vlan = 0) {
    Path path;
    path.source_gid = parse_ip(source).value();
    path.destination_gid = parse_ip(destination).value();
    path.vlan = vlan;
    return path;
  }

  void SetUp() override { ASSERT_EQ(pool_.allocate(&frame_, 1), 1U); }
  void TearDown() override { pool_.release(&frame_, 1); }

 private:
  FramePool pool_{1, 1'500 + kEthernetOverhead};
  Frame* frame_ = nullptr;
};

TEST_F(PacketFanout, FramesReachTheirOwner) {
  const std::array paths{path("10.0.0.1", "10.0.0.2"), path("fd00::1", "fd00::2"),
                         path("10.0.0.1", "10.0.0.2", 0x6005), path("fd00::1", "fd00::2", 5)};
  const bool made = in_own_network([&] {
    Group group;
    for (const Path& path : paths) {
      for (const std::uint32_t qpn : {1U, 20U, 21U, 22U, 0xFFFFFEU}) {
        EXPECT_EQ(group.receiver_of(request(path, qpn)), static_cast<int>(qpn % kWorkers))
            << to_string(path.source_gid) << " VLAN " << path.vlan << " QP " << qpn;
      }
    }
  });
  if (!made) {
    GTEST_SKIP() << "this machine gives no network namespace";
  }
}

// ARP, other UDP ports, packets whose headers aren't laid out as RoCEv2's, and truncated ones.
TEST_F(PacketFanout, OtherFramesReachTheFirstWorker) {
  const auto changed = [&](std::uint32_t at, std::uint8_t value) {
    const Frame& frame = request(path("10.0.0.1", "10.0.0.2"), 20);
    frame.data[at] = std::byte{value};
    return frame;
  };
  constexpr std::uint32_t kIp = ETH_HLEN;
  const bool made = in_own_network([&] {
    Group group;
    EXPECT_EQ(group.receiver_of(changed(kIp - 1, 0x06)), 0) << "ARP";
    EXPECT_EQ(group.receiver_of(changed(kIp, 0x46)), 0) << "options";
    EXPECT_EQ(group.receiver_of(changed(kIp + 9, 6)), 0) << "TCP";
    EXPECT_EQ(group.receiver_of(changed(kIp + 23, 0xB6)), 0) << "another UDP port";
    Frame shorter = request(path("10.0.0.1", "10.0.0.2"), 20);
    shorter.length = kIp + 33;
    EXPECT_EQ(group.receiver_of(shorter), 0) << "shorter than a BTH";
  });
  if (!made) {
    GTEST_SKIP() << "this machine gives no network namespace";
  }
}

// The kernel refuses another mode for an existing group; the socket then joins in the mode that the
// driver asked for.
TEST_F(PacketFanout, IfTheKernelRefusesTheDriversModeIsUsed) {
  const bool made = in_own_network([&] {
    const UniqueFd first = packet_socket();
    EXPECT_TRUE(join(first));
    const FanoutByOwner by_owner(kWorkers);
    const UniqueFd second = packet_socket();
    EXPECT_TRUE(join(second)) << std::strerror(errno);
    int joined = 0;
    socklen_t size = sizeof(joined);
    EXPECT_EQ(::getsockopt(second.get(), SOL_PACKET, PACKET_FANOUT, &joined, &size), 0);
    EXPECT_EQ(static_cast<std::uint32_t>(joined), kByHash);
  });
  if (!made) {
    GTEST_SKIP() << "this machine gives no network namespace";
  }
}

TEST_F(PacketFanout, OtherOptionsGoToTheKernel) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  EXPECT_EQ(::setsockopt(socket.get(), SOL_PACKET, PACKET_FANOUT, &on, sizeof(on)), -1);
  EXPECT_EQ(errno, ENOPROTOOPT);
}

}  // namespace
}  // namespace uroce
