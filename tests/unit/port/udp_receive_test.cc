// The receiver of a udp port, fed by a plain socket.

#include "dataplane/port/udp/udp_receive.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "base/unique_fd.h"

namespace uroce {
namespace {

class UdpReceiverTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBurst = 32;
  static constexpr std::uint32_t kCapacity = 1'600;

  UdpReceiverTest() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address_);
    auto* any = reinterpret_cast<sockaddr*>(&address_);
    EXPECT_EQ(::bind(receiving_.get(), any, length), 0);
    EXPECT_EQ(::getsockname(receiving_.get(), any, &length), 0);
  }
  // Loopback delivers before sendto() returns.
  void send(std::size_t bytes) {
    const std::vector<char> datagram(bytes);
    EXPECT_EQ(::sendto(sending_.get(), datagram.data(), bytes, 0,
                       reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)),
              static_cast<ssize_t>(bytes));
  }
  // The number of frames that one call returns.
  std::uint32_t take() {
    std::array<Frame*, kBurst> frames{};
    const std::uint32_t count = receiver_.take(pool_, frames.data(), kBurst, counters_);
    pool_.release(frames.data(), count);
    return count;
  }

  UniqueFd receiving_{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  UniqueFd sending_{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
  FramePool pool_{1'024, kCapacity};
  QueueCounters counters_;
  UdpReceiver receiver_{receiving_.get(), *parse_ip("127.0.0.1")};
};

// If dropped datagrams didn't count, a call might never return.
TEST_F(UdpReceiverTest, DroppedDatagramsCountTowardsABurst) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{kCapacity + 1}}) {
    SCOPED_TRACE(bytes);
    for (std::uint32_t i = 0; i < 2 * kBurst; ++i) {
      send(bytes);
    }
    send(100);
    EXPECT_EQ(take(), 0U) << "a burst of dropped ones";
    EXPECT_EQ(take(), 0U) << "the other dropped ones";
    EXPECT_EQ(take(), 1U);
  }
}

TEST_F(UdpReceiverTest, FramesAreReceivedAmongDroppedDatagrams) {
  for (std::uint32_t i = 0; i < kBurst / 2; ++i) {
    send(0);
    send(100);
  }
  EXPECT_EQ(take(), kBurst / 2);
  EXPECT_EQ(take(), 0U);
  for (std::uint32_t i = 0; i < kBurst; ++i) {
    send(100);
  }
  EXPECT_EQ(take(), kBurst) << "without dropped ones a burst is complete";
}

}  // namespace
}  // namespace uroce
