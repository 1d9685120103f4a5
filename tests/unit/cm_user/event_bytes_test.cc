// The bytes in an event channel's socket: one for each event, so that each is an edge.

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "base/sockets/event_socket.h"
#include "control/cm_user/event_channel.h"
#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

class EventBytes : public TwoPrograms {
 protected:
  void SetUp() override {
    set.reset(epoll_create1(EPOLL_CLOEXEC));
    epoll_event wanted{.events = EPOLLIN | EPOLLET, .data = {}};
    ASSERT_EQ(epoll_ctl(set.get(), EPOLL_CTL_ADD, client_channel.pipe.get(), &wanted), 0);
  }
  [[nodiscard]] bool edge() const {
    epoll_event event{};
    return epoll_wait(set.get(), &event, 1, 0) == 1;
  }
  // One event in the client's channel.
  std::uint32_t resolve() {
    const std::uint32_t id = client.create_id(client_channel, kClientUid);
    EXPECT_EQ(client.resolve(client_channel, id, "10.0.0.1", kPort).error, 0);
    return id;
  }

  UniqueFd set;
};

TEST_F(EventBytes, AreAnEdgeForEachEvent) {
  EXPECT_FALSE(edge());
  resolve();
  EXPECT_TRUE(edge());
  EXPECT_FALSE(edge());
  resolve();
  EXPECT_TRUE(edge()) << "though the first event waits";
  client.expect_event(client_channel, kAddrResolved);
  EXPECT_EQ(client.bytes_taken, 1U);
  EXPECT_TRUE(client_channel.readable());
  client.expect_event(client_channel, kAddrResolved);
  EXPECT_EQ(client.bytes_taken, 1U);
  EXPECT_FALSE(client_channel.readable());
}

TEST_F(EventBytes, LeaveWithEventsThatNobodyFetched) {
  const std::uint32_t first = resolve();
  resolve();
  ASSERT_EQ(client.destroy_id(client_channel, first).error, 0);
  EXPECT_EQ(client.bytes_taken, 1U);
  client.expect_event(client_channel, kAddrResolved);
  EXPECT_FALSE(client_channel.readable());
}

TEST_F(EventBytes, OfRequestsThatWereWithdrawnLeaveWithTheNextCommand) {
  listen(kStream);
  for (int i = 0; i < 3; ++i) {
    ask(kStream);
    ASSERT_EQ(client.destroy_id(client_channel, active).error, 0);
  }
  server.expect_event(server_channel, kConnectRequest);
  EXPECT_EQ(server.bytes_taken, 3U);
  EXPECT_FALSE(server_channel.readable());
}

// A command that names no other channel has zero for one, which is the first channel's number.
TEST_F(EventBytes, OfAChannelStayWhenACommandIsAboutAnother) {
  listen(kStream);
  for (int i = 0; i < 3; ++i) {
    ask(kStream);
    ASSERT_EQ(client.destroy_id(client_channel, active).error, 0);
  }
  const ProgramChannel second = server.open_channel();
  server.create_id(second, kServerUid);
  server.expect_event(server_channel, kConnectRequest);
  EXPECT_FALSE(server_channel.readable());
}

TEST_F(EventBytes, MoveWithTheIdThatMigrates) {
  const ProgramChannel second = client.open_channel();
  const std::uint32_t id = resolve();
  resolve();
  ASSERT_EQ(client.migrate(second, id, client_channel).error, 0);
  client.expect_event(second, kAddrResolved);
  EXPECT_FALSE(second.readable());
  client.expect_event(client_channel, kAddrResolved);
  EXPECT_FALSE(client_channel.readable());
}

// The daemon doesn't wait, and what is fetched later keeps the channel readable until its end.
TEST_F(EventBytes, HaveNoRoomInAChannelThatNobodyReads) {
  constexpr int kEvents = 4 * kCompletionEventsMax;
  for (int i = 0; i < kEvents; ++i) {
    resolve();
  }
  for (int i = 0; i < kEvents; ++i) {
    client.expect_event(client_channel, kAddrResolved);
  }
  EXPECT_FALSE(client_channel.readable());
  EXPECT_FALSE(client.next_event(client_channel));
}

int bytes_in(const EventSocket& socket) {
  int bytes = 0;
  for (char byte = 0; ::recv(socket.read_end.get(), &byte, sizeof(byte), MSG_DONTWAIT) == 1;) {
    ++bytes;
  }
  return bytes;
}

TEST(EventChannel, HasAsManyBytesAsLeaveRoomForLaterEvents) {
  auto socket = make_event_socket("a test's channel");
  ASSERT_TRUE(socket);
  EventChannel channel(std::move(socket->write_end));
  for (std::uint32_t i = 0; i < EventChannel::kBytesMax + 1; ++i) {
    channel.push({});
  }
  EXPECT_EQ(channel.settle(), 0U);
  EXPECT_EQ(bytes_in(*socket), static_cast<int>(EventChannel::kBytesMax));
}

// A program fetches all events, and another comes before it has taken out the bytes that it was
// told to. It mustn't find the channel empty then.
TEST(EventChannel, AnEventThatComesBeforeTheBytesAreTakenHasItsByte) {
  for (const std::uint32_t events : {EventChannel::kBytesMax, EventChannel::kBytesMax + 1,
                                     4 * std::uint32_t{kCompletionEventsMax}}) {
    auto socket = make_event_socket("a test's channel");
    ASSERT_TRUE(socket);
    EventChannel channel(std::move(socket->write_end));
    for (std::uint32_t i = 0; i < events; ++i) {
      channel.push({});
    }
    std::uint32_t leaving = 0;
    while (!channel.empty()) {
      (void)channel.pop();
      leaving += channel.settle();
    }
    EXPECT_EQ(leaving, EventChannel::kBytesMax);
    channel.push({});
    EXPECT_EQ(bytes_in(*socket), static_cast<int>(leaving + 1)) << events << " events";
    (void)channel.pop();
    EXPECT_EQ(channel.settle(), 1U);
  }
}

// What a program's own librdmacm would have to know if the daemon were gone.
TEST_F(EventBytes, ComeWithTheIdThatAnEventCountsFor) {
  resolve();
  client.expect_event(client_channel, kAddrResolved);
  EXPECT_EQ(client.counted_id, 1U) << "handle 0";
  listen(kStream);
  ask(kStream);
  const std::uint32_t fresh = server.expect_event(server_channel, kConnectRequest).id;
  EXPECT_NE(fresh, listening);
  EXPECT_EQ(server.counted_id, listening + 1);
  EXPECT_EQ(server.counted_membership, 0U);
}

}  // namespace
}  // namespace uroce::control::cm_user
