// How connections end: refused, given up, disconnected by one or both, forgotten, attacked.

#include "base/byte_stream.h"
#include "control/cm/manager.h"
#include "control/cm/timing.h"
#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class EndingsTest : public Pair {};

TEST_F(EndingsTest, NobodyListens) {
  const auto id = *active.manager.connect(request(), now);
  exchange();
  EXPECT_EQ(active.expect(EventKind::kRejected).reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(active.manager.state(id), State::kIdle);
  active.manager.destroy(id, now);
  expect_nothing_left();
}

TEST_F(EndingsTest, NobodyThereIsUnreachableWithinTheRequestsOwnTime) {
  cut = true;
  ConnectParameters wanted = request();
  wanted.response_timeout = 16;
  wanted.packet_lifetime = 14;
  wanted.retries = 3;
  const auto id = *active.manager.connect(wanted, now);
  const Duration lifetime = 4 * answer_time(16, 14);
  run(lifetime - 1);
  EXPECT_TRUE(active.events.empty());
  run(2);
  const Event event = active.expect(EventKind::kUnreachable);
  EXPECT_EQ(event.connection, id);
  EXPECT_EQ(event.error, ETIMEDOUT);
  EXPECT_EQ(std::count_if(active.sent.begin(), active.sent.end(),
                          [](const Outgoing& out) {
                            return std::string(name_of(message_of(out.mad))) == "REQ";
                          }),
            4);
}

// The answer is unread while the daemon is stopped: the request doesn't time out at the first poll.
TEST_F(EndingsTest, AStandstillOfOurOwnIsNotHeldAgainstThePeer) {
  listen();
  ConnectParameters wanted = request();
  wanted.retries = 0;
  const auto id = *active.manager.connect(wanted, now);
  now = active.manager.next_deadline() + 3 * kNanosecondsPerSecond;
  active.manager.on_time(now);
  EXPECT_EQ(active.manager.state(id), State::kReqSent);
  exchange();
  const Event& asked = passive.expect(EventKind::kRequest);
  ASSERT_TRUE(passive.manager.accept(asked.connection, answer(), now));
  exchange();
  active.expect(EventKind::kReply);
}

// But the next timeout counts.
TEST_F(EndingsTest, AfterAStandstillAPeerThatIsNotThereIsGivenUp) {
  cut = true;
  ConnectParameters wanted = request();
  wanted.retries = 0;
  (void)active.manager.connect(wanted, now);
  now = active.manager.next_deadline() + kPauseMin;
  active.manager.on_time(now);
  exchange();
  EXPECT_TRUE(active.events.empty());
  run(10 * kNanosecondsPerSecond);
  active.expect(EventKind::kUnreachable);
}

TEST_F(EndingsTest, AnUnansweredRepEndsBothSides) {
  listen();
  const Ends ends = ask();
  ASSERT_TRUE(passive.manager.wait_longer(ends.passive, 26, now));
  exchange();
  lose = "REP";
  lose_count = 1000;
  ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
  run(300 * kNanosecondsPerSecond);
  passive.expect(EventKind::kUnreachable);
  const Event rejected = active.expect(EventKind::kRejected);
  EXPECT_EQ(rejected.reason, RejectReason::kTimeout);
  ByteWriter guid;
  guid.u64(answer().ca_guid);
  EXPECT_EQ(rejected.info, guid.take()) << "Linux looks for its connection by this";
}

TEST_F(EndingsTest, BothDisconnectAtOnce) {
  listen();
  const Ends ends = establish();
  ASSERT_TRUE(active.manager.disconnect(ends.active, {}, now));
  ASSERT_TRUE(passive.manager.disconnect(ends.passive, {}, now));
  exchange();
  active.expect(EventKind::kDisconnected);
  passive.expect(EventKind::kDisconnected);
  destroy(ends);
  expect_nothing_left();
}

TEST_F(EndingsTest, AVanishedPeerIsGivenUp) {
  listen();
  const Ends ends = establish();
  cut = true;
  ASSERT_TRUE(active.manager.disconnect(ends.active, {}, now));
  run(200 * kNanosecondsPerSecond);
  EXPECT_TRUE(active.expect(EventKind::kDisconnected).timed_out);
  active.expect(EventKind::kTimewaitExit);
  EXPECT_EQ(active.manager.counters().given_up, 1U);
}

TEST_F(EndingsTest, DestroyTellsThePeerInEveryState) {
  for (int step = 0; step < 5; ++step) {
    for (const bool active_goes : {true, false}) {
      SCOPED_TRACE(step);
      SCOPED_TRACE(active_goes);
      active.events.clear();
      passive.events.clear();
      const ListenerId listener = listen();
      Ends ends = ask();
      if (step >= 1) {
        ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
        exchange();
      }
      if (step >= 2) {
        ASSERT_TRUE(active.manager.ready(ends.active, {}, now));
        exchange();
      }
      if (step >= 3) {
        ASSERT_TRUE(active.manager.disconnect(ends.active, {}, now));
        exchange();
      }
      if (step >= 4) {
        ASSERT_TRUE(passive.manager.disconnect(ends.passive, {}, now));
        exchange();
      }
      Side& stays = active_goes ? passive : active;
      stays.events.clear();
      if (active_goes) {
        active.manager.destroy(ends.active, now);
      } else {
        passive.manager.destroy(ends.passive, now);
      }
      exchange();
      if (step < 3) {
        ASSERT_FALSE(stays.events.empty());
        const EventKind told = stays.events.front().kind;
        EXPECT_TRUE(told == EventKind::kRejected || told == EventKind::kDisconnecting);
      }
      destroy(ends);
      expect_nothing_left();
      passive.manager.stop_listening(listener, now);
    }
  }
}

TEST_F(EndingsTest, ARestartedPeerEndsTheStaleConnection) {
  listen();
  const Ends old = establish();
  // The active side's daemon starts anew; its queue pair gets the same number again.
  Side reborn(99, "10.0.0.1", "10.0.0.2");
  const auto again = *reborn.manager.connect(request(17), now);
  auto pump = [&] {
    for (int i = 0; i < 10; ++i) {
      move(reborn, passive);
      move(passive, reborn);
    }
  };
  pump();
  EXPECT_EQ(reborn.expect(EventKind::kRejected).reason, RejectReason::kStaleConnection);
  EXPECT_EQ(passive.expect(EventKind::kDisconnected).connection, old.passive);
  EXPECT_EQ(passive.manager.counters().stale, 1U);
  // Its next try is welcome.
  reborn.manager.destroy(again, now);
  ASSERT_TRUE(reborn.manager.connect(request(17), now));
  pump();
  passive.expect(EventKind::kRequest);
}

TEST_F(EndingsTest, AStrangerCantTouchAConnection) {
  listen();
  const Ends ends = establish();
  const auto info = active.manager.connections().front();
  const Route stranger{.local = passive.route.local, .remote = *parse_ip("10.0.0.9")};
  const Message forged[] = {
      Rej{.local_id = info.id,
          .remote_id = ends.passive,
          .message = RejMessage::kNone,
          .reason = RejectReason::kConsumerDefined,
          .info = {},
          .private_data = {}},
      Dreq{.local_id = info.id, .remote_id = ends.passive, .remote_qpn = 18, .private_data = {}},
      Drep{.local_id = info.id, .remote_id = ends.passive, .private_data = {}},
      Rtu{.local_id = info.id, .remote_id = ends.passive, .private_data = {}},
  };
  for (const Message& message : forged) {
    passive.manager.on_mad(stranger, build_mad(1, message), now);
  }
  EXPECT_EQ(passive.manager.counters().dropped_unknown, 4U);
  exchange();
  EXPECT_TRUE(passive.events.empty());
  EXPECT_EQ(passive.manager.state(ends.passive), State::kEstablished);
  // Nor can the peer with another connection's ids.
  passive.manager.on_mad(passive.route,
                         build_mad(1, Dreq{.local_id = info.id,
                                           .remote_id = ends.passive,
                                           .remote_qpn = 99,
                                           .private_data = {}}),
                         now);
  EXPECT_EQ(passive.manager.counters().dropped_field, 1U);
}

TEST_F(EndingsTest, ARejectionCarriesItsReasonAndData) {
  listen();
  const Ends ends = ask();
  Rejection no{.reason = RejectReason::kConsumerDefined,
               .info = PrivateData(3, std::byte{7}),
               .private_data = PrivateData(148, std::byte{9})};
  ASSERT_TRUE(passive.manager.reject(ends.passive, no, now));
  exchange();
  const Event event = active.expect(EventKind::kRejected);
  EXPECT_EQ(event.reason, RejectReason::kConsumerDefined);
  EXPECT_EQ(event.info, no.info);
  EXPECT_EQ(event.private_data, no.private_data);
  EXPECT_EQ(active.manager.counters().last_reject_received, RejectReason::kConsumerDefined);
}

TEST_F(EndingsTest, ALostRejectionIsRepeatedToWhoAsksAgain) {
  listen();
  const Ends ends = ask();
  lose = "REJ";
  lose_count = 1;
  ASSERT_TRUE(passive.manager.reject(ends.passive, {}, now));
  passive.manager.destroy(ends.passive, now);
  run(10 * kNanosecondsPerSecond);
  active.expect(EventKind::kRejected);
  EXPECT_TRUE(passive.events.empty());
}

TEST_F(EndingsTest, AnUnknownConnectionIsOverForWhoeverAsks) {
  passive.manager.on_mad(passive.route, build_mad(4, Dreq{1, 2, 3, {}}), now);
  exchange();
  EXPECT_EQ(last_as<Drep>(passive).remote_id, 1U);
  EXPECT_EQ(last_as<Drep>(passive).local_id, 2U);
  Rep rep;
  rep.local_id = 1;
  rep.remote_id = 2;
  rep.qpn = 3;
  passive.manager.on_mad(passive.route, build_mad(4, rep), now);
  exchange();
  const Rej rej = last_as<Rej>(passive);
  EXPECT_EQ(rej.reason, RejectReason::kInvalidCommunicationId);
  EXPECT_EQ(rej.remote_id, 1U);
  EXPECT_EQ(rej.local_id, 2U) << "Linux knows its connection by both";
}

TEST_F(EndingsTest, StopListeningRejectsWhoWaits) {
  const ListenerId listener = listen();
  ask();
  passive.manager.stop_listening(listener, now);
  exchange();
  EXPECT_EQ(active.expect(EventKind::kRejected).reason, RejectReason::kConsumerDefined);
  EXPECT_TRUE(passive.manager.listeners().empty());
}

TEST_F(EndingsTest, StopListeningEndsNothingElse) {
  const ListenerId listener = listen();
  ASSERT_TRUE(passive.manager.listen({.service_id = kService + 1}, 0, 78));
  const auto ask_for = [this](std::uint32_t qpn, std::uint64_t service) {
    ConnectParameters wanted = request(qpn);
    wanted.service_id = service;
    EXPECT_TRUE(active.manager.connect(wanted, now));
    exchange();
    return passive.expect(EventKind::kRequest).connection;
  };
  const ConnectionId fetched = ask_for(17, kService), unfetched = ask_for(18, kService);
  const ConnectionId of_another = ask_for(19, kService + 1);
  passive.manager.set_cookie(fetched, 99);
  passive.manager.stop_listening(listener, now);
  EXPECT_FALSE(passive.manager.connection(unfetched)->owned);
  ASSERT_TRUE(passive.manager.accept(fetched, answer(20), now));
  ASSERT_TRUE(passive.manager.accept(of_another, answer(21), now));
}

}  // namespace
}  // namespace uroce::control::cm
