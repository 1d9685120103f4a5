// Channels with thousands of events that their program doesn't fetch: what happens to others'
// requests there costs control no more than elsewhere.

#include <algorithm>
#include <memory>

#include "base/sanitized.h"
#include "base/sockets/event_socket.h"
#include "base/time/monotonic_clock.h"
#include "control/cm_user/user.h"
#include "tests/unit/cm_user/two_programs.h"

namespace uroce::control::cm_user {
namespace {

using enum EventNumber;

constexpr Duration kSlack = 20 * kNanosecondsPerMillisecond;

class ManyEvents : public TwoPrograms {
 protected:
  static constexpr uid_t kAttacker = 4'242;

  void SetUp() override { attack(); }
  void attack() {
    attacker = std::make_unique<CmProgram>(rig, kAttacker);
    attackers_channel = attacker->open_channel();
  }
  static std::uint32_t resolve(CmProgram& program, const ProgramChannel& channel, Kind kind) {
    const std::uint32_t id = program.create_id(channel, kClientUid, kind.space, kind.qp_type);
    EXPECT_EQ(program.resolve(channel, id, "10.0.0.1", kPort).error, 0);
    EXPECT_EQ(program.resolve_route(channel, id).error, 0);
    return id;
  }
  // Returns the id that connects.
  std::uint32_t ask_from(CmProgram& program, const ProgramChannel& channel, Kind kind = kStream) {
    const std::uint32_t id = resolve(program, channel, kind);
    EXPECT_EQ(program.connect(channel, id, next_qpn++).error, 0);
    program.expect_event(channel, kAddrResolved);
    program.expect_event(channel, kRouteResolved);
    return id;
  }
  // Two events for each id in the listening program's channel.
  void fill(std::uint32_t events) {
    for (std::uint32_t i = 0; i < events / 2; ++i) {
      resolve(server, server_channel, kStream);
    }
  }
  EventChannel& channel_of(const ProgramChannel& channel) {
    return **server.program.conversation.cm_user().channel(channel.handle);
  }
  Id& listening_id() { return *server.program.conversation.cm_user().id(listening); }
  // Returns what it takes to withdraw all of them, as the attacker's end does.
  Duration withdraw(std::uint32_t requests) {
    attack();
    for (std::uint32_t i = 0; i < requests; ++i) {
      ask_from(*attacker, attackers_channel);
    }
    EXPECT_EQ(listening_id().requests_waiting, requests);
    const Duration begun = thread_processor_time();
    attacker.reset();
    const Duration took = thread_processor_time() - begun;
    EXPECT_EQ(listening_id().requests_waiting, 0U);
    return took;
  }

  std::unique_ptr<CmProgram> attacker;
  ProgramChannel attackers_channel;
};

// Before, the channel's events were walked for each request.
TEST_F(ManyEvents, DontMakeItCostlyToWithdrawRequests) {
  constexpr std::uint32_t kRequests = 2'000, kEvents = 20'000;
  const Account& account = *server.program.session.account();
  listen(kStream);
  fill(2);
  const Duration alone = withdraw(kRequests);
  fill(kEvents);
  const Duration among_events = withdraw(kRequests);
  RecordProperty("alone_us", static_cast<int>(alone / 1'000));
  RecordProperty("among_events_us", static_cast<int>(among_events / 1'000));
  if (!kSanitized) {
    EXPECT_LT(among_events, 5 * alone + kSlack) << "alone: " << alone;
  }
  EXPECT_EQ(account.used(Limit::kCmIds), 2 + kEvents / 2) << "with the listening id";
  EXPECT_EQ(account.used(Limit::kConnections), 0U);
  for (std::uint32_t i = 0; i < kEvents / 2 + 1; ++i) {
    server.expect_event(server_channel, kAddrResolved);
    server.expect_event(server_channel, kRouteResolved);
  }
  EXPECT_FALSE(server_channel.readable());
}

TEST_F(ManyEvents, StayWhenOneSendersRequestsAreWithdrawn) {
  listen(kStream);
  fill(2);
  ask_from(*attacker, attackers_channel);
  const std::uint32_t first = ask_from(*attacker, attackers_channel);
  ask_from(client, client_channel);
  ask_from(client, client_channel);
  ASSERT_EQ(attacker->destroy_id(attackers_channel, first).error, 0);
  EXPECT_EQ(listening_id().requests_waiting, 3U);
  attacker.reset();
  EXPECT_EQ(listening_id().requests_waiting, 2U);
  server.expect_event(server_channel, kAddrResolved);
  server.expect_event(server_channel, kRouteResolved);
  accept();
  accept();
  EXPECT_EQ(listening_id().requests_waiting, 0U);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_FALSE(server.next_event(server_channel));
}

// The requests' events are in another channel then.
TEST_F(ManyEvents, OfAMigratedListeningIdAreWithdrawnThere) {
  const Account& account = *server.program.session.account();
  const ProgramChannel other = server.open_channel();
  listen(kStream);
  fill(2);
  for (int i = 0; i < 3; ++i) {
    ask_from(*attacker, attackers_channel);
  }
  ask_from(client, client_channel);
  ASSERT_EQ(server.migrate(other, listening, server_channel).error, 0);
  EXPECT_EQ(channel_of(other).ids, 5U);
  EXPECT_EQ(channel_of(server_channel).ids, 1U);
  const std::uint64_t ids_before = account.used(Limit::kCmIds);
  attacker.reset();
  EXPECT_EQ(listening_id().requests_waiting, 1U);
  EXPECT_EQ(account.used(Limit::kCmIds), ids_before - 3);
  EXPECT_EQ(account.used(Limit::kConnections), 2U) << "both ends of the client's";
  EXPECT_EQ(channel_of(other).ids, 2U);
  server.expect_event(server_channel, kAddrResolved);
  server.expect_event(server_channel, kRouteResolved);
  EXPECT_FALSE(server_channel.readable());
  passive = server.expect_event(other, kConnectRequest).id;
  EXPECT_FALSE(other.readable());
  EXPECT_EQ(server.accept(other, passive, kServerUid, next_qpn++).error, 0);
  client.expect_event(client_channel, kConnectResponse);
}

TEST_F(ManyEvents, OfAMigratedListeningIdKeepTheirOrder) {
  const ProgramChannel other = server.open_channel();
  listen(kStream);
  for (int i = 0; i < 2; ++i) {
    ask_from(*attacker, attackers_channel);
  }
  const std::uint32_t of_client = next_qpn;
  ask_from(client, client_channel);
  ASSERT_EQ(server.migrate(other, listening, server_channel).error, 0);
  EXPECT_FALSE(server_channel.readable());
  for (const std::uint32_t qpn : {of_client - 2, of_client, of_client - 1}) {
    EXPECT_EQ(server.expect_event(other, kConnectRequest).param.conn.qp_num, qpn);
  }
  EXPECT_FALSE(other.readable());
}

TEST_F(ManyEvents, EndWithTheirListeningIdAfterSomeAreWithdrawn) {
  const Account& account = *server.program.session.account();
  listen(kStream);
  for (int i = 0; i < 3; ++i) {
    ask_from(*attacker, attackers_channel);
    ask_from(client, client_channel);
  }
  attacker.reset();
  ASSERT_EQ(server.destroy_id(server_channel, listening).error, 0);
  EXPECT_FALSE(server_channel.readable());
  EXPECT_EQ(channel_of(server_channel).ids, 0U);
  EXPECT_EQ(account.used(Limit::kCmIds), 3U) << "the client's";
}

class Rounds : public testing::Test {
 protected:
  // Returns what it takes to push so many, behind those that are there.
  Duration push(std::uint32_t events, std::uint32_t round) {
    UserEvent event;
    event.round = round;
    const Duration begun = thread_processor_time();
    for (std::uint32_t i = 0; i < events; ++i) {
      event.record.uid = next_uid++;
      channel->push(event);
    }
    return thread_processor_time() - begun;
  }

  Result<EventSocket> socket = make_event_socket("a test's channel");
  std::unique_ptr<EventChannel> channel =
      std::make_unique<EventChannel>(std::move(socket->write_end));
  std::uint64_t next_uid = 0;
};

TEST_F(Rounds, AreDeliveredOneAfterTheOtherEachInOrderOfArrival) {
  for (const std::uint32_t round : {0U, 2U, 1U, 0U, 1U, 2U, 0U}) {
    push(1, round);
  }
  for (const std::uint64_t uid : {0U, 3U, 6U, 2U, 4U, 1U, 5U}) {
    EXPECT_EQ(channel->pop().record.uid, uid);
  }
  EXPECT_TRUE(channel->empty());
}

// As when the addresses of thousands of ids are resolved at once, and thousands of requests wait.
// Before, each event walked past all of later rounds.
TEST_F(Rounds, ThatWaitDontMakeItCostlyToAddAnEventBeforeThem) {
  constexpr std::uint32_t kEvents = 20'000;
  const Duration alone = push(kEvents, 1);
  const Duration before_others = push(kEvents, 0);
  RecordProperty("alone_us", static_cast<int>(alone / 1'000));
  RecordProperty("before_others_us", static_cast<int>(before_others / 1'000));
  if (!kSanitized) {
    EXPECT_LT(before_others, 5 * alone + kSlack) << "alone: " << alone;
  }
  EXPECT_EQ(channel->pop().record.uid, kEvents);
}

}  // namespace
}  // namespace uroce::control::cm_user
