#include "apps/tree/netlink_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/sockets/record_socket.h"
#include "tests/unit/temporary_folder.h"

namespace uroce {
namespace {

constexpr std::size_t kDatagrams = 1000;  // many times what a socket's buffer holds
constexpr std::size_t kLength = 4000;

class NetlinkServerTest : public testing::Test {
 protected:
  UniqueFd ask() {
    UniqueFd asker(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto address = address_of(path_).value();
    EXPECT_EQ(::connect(asker.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    EXPECT_EQ(::send(asker.get(), "?", 1, 0), 1);
    return asker;
  }
  void serve(std::size_t datagrams) {
    server_->serve([datagrams](std::string_view /*question*/) {
      return std::vector<std::string>(datagrams, std::string(kLength, 'x'));
    });
  }
  static std::size_t taken(const UniqueFd& asker) {
    std::size_t count = 0;
    char datagram[kLength];
    while (::recv(asker.get(), datagram, sizeof(datagram), 0) == static_cast<ssize_t>(kLength)) {
      ++count;
    }
    return count;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "netlink";
  Result<NetlinkServer> server_ = NetlinkServer::listen(path_);
};

TEST_F(NetlinkServerTest, ASlowReaderGetsTheWholeAnswer) {
  const UniqueFd slow = ask();
  serve(kDatagrams);
  const UniqueFd other = ask();  // a second client meanwhile
  serve(1);
  EXPECT_EQ(taken(other), 1U);
  EXPECT_EQ(taken(slow), kDatagrams);
}

TEST_F(NetlinkServerTest, SlowReadersAreBounded) {
  std::vector<UniqueFd> slow;
  for (int i = 0; i <= NetlinkServer::kSlowAnswersMax; ++i) {
    slow.push_back(ask());
    serve(kDatagrams);
  }
  EXPECT_LT(taken(slow.back()), kDatagrams);
  slow.pop_back();
  for (const UniqueFd& one : slow) {
    EXPECT_EQ(taken(one), kDatagrams);
  }
}

}  // namespace
}  // namespace uroce
