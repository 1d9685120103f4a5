// Connections from the first message to the last, with what can go wrong in between.

#include "control/cm/manager.h"

#include "control/cm/timing.h"
#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class ManagerTest : public Pair {};

TEST_F(ManagerTest, ConnectsAndDisconnects) {
  listen();
  const Ends ends = establish();
  EXPECT_EQ(active.manager.state(ends.active), State::kEstablished);
  EXPECT_EQ(passive.manager.state(ends.passive), State::kEstablished);

  ASSERT_TRUE(active.manager.disconnect(ends.active, {}, now));
  exchange();
  EXPECT_EQ(passive.expect(EventKind::kDisconnecting).cookie, 22U);
  ASSERT_TRUE(passive.manager.disconnect(ends.passive, {}, now));
  exchange();
  EXPECT_EQ(active.expect(EventKind::kDisconnected).cookie, 11U);
  run(timer_duration(19));
  active.expect(EventKind::kTimewaitExit);
  passive.expect(EventKind::kTimewaitExit);
  destroy(ends);
  expect_nothing_left();
}

// As Linux: an XRC target's queue pair is in the field of EE contexts.
TEST_F(ManagerTest, AnXrcTargetAnswersWithItsQueuePairAsContext) {
  listen();
  ConnectParameters wanted = request(17);
  wanted.transport = Transport::kXrc;
  const ConnectionId initiator = *active.manager.connect(wanted, now);
  exchange();
  AcceptParameters given = answer(0x123456);
  given.initiator_depth = 2;
  ASSERT_TRUE(passive.manager.accept(passive.expect(EventKind::kRequest).connection, given, now));
  exchange();
  constexpr std::size_t kQpnAt = 36, kContextAt = 40;  // in the MAD
  const Mad& mad = passive.sent.back().mad;
  EXPECT_EQ(mad[kQpnAt] | mad[kQpnAt + 1] | mad[kQpnAt + 2], std::byte{0});
  EXPECT_EQ(mad[kContextAt], std::byte{0x12});
  EXPECT_EQ(mad[kContextAt + 1], std::byte{0x34});
  EXPECT_EQ(mad[kContextAt + 2], std::byte{0x56});
  const Rep rep = last_as<Rep>(passive);
  EXPECT_TRUE(rep.srq);
  EXPECT_FALSE(rep.flow_control);
  EXPECT_EQ(rep.initiator_depth, 0);
  EXPECT_EQ(active.expect(EventKind::kReply).reply->qpn, 0x123456U);
  EXPECT_EQ(active.manager.qp_attributes(initiator, QpState::kRtr)->dest_qpn, 0x123456U);
}

TEST_F(ManagerTest, ReplyWithoutTheQueuePairOfItsTransportIsDropped) {
  for (const Transport transport : {Transport::kRc, Transport::kXrc}) {
    cut = true;
    ConnectParameters wanted = request();
    wanted.transport = transport;
    const ConnectionId id = *active.manager.connect(wanted, now);
    exchange();
    Rep rep{.local_id = 5, .remote_id = id};
    (transport == Transport::kXrc ? rep.qpn : rep.eecn) = 18;
    active.manager.on_mad(active.route, build_mad(1, rep), now);
    exchange();
    EXPECT_TRUE(active.events.empty());
    EXPECT_EQ(active.manager.state(id), State::kReqSent);
  }
  EXPECT_EQ(active.manager.counters().dropped_field, 2U);
}

TEST_F(ManagerTest, QueuePairsAgree) {
  listen();
  ConnectParameters wanted = request(17);
  wanted.starting_psn = 0x123456;
  wanted.responder_resources = 4;
  wanted.initiator_depth = 9;
  wanted.retry_count = 5;
  wanted.rnr_retry_count = 3;
  Ends ends;
  ends.active = *active.manager.connect(wanted, now);
  EXPECT_FALSE(active.manager.qp_attributes(ends.active, QpState::kRtr));
  exchange();
  const Event event = passive.expect(EventKind::kRequest);
  ends.passive = event.connection;
  EXPECT_EQ(event.request->qpn, 17U);
  // Before the answer, as librdmacm asks for them.
  EXPECT_EQ(passive.manager.qp_attributes(ends.passive, QpState::kRtr)->dest_qpn, 17U);
  AcceptParameters given = answer(18);
  given.responder_resources = 7;
  given.initiator_depth = 2;
  given.rnr_retry_count = 6;
  ASSERT_TRUE(passive.manager.accept(ends.passive, given, now));
  exchange();
  active.expect(EventKind::kReply);

  const auto ours = *active.manager.qp_attributes(ends.active, QpState::kRts);
  const auto theirs = *passive.manager.qp_attributes(ends.passive, QpState::kRts);
  EXPECT_EQ(ours.dest_qpn, 18U);
  EXPECT_EQ(ours.rq_psn, 0x123456U);
  EXPECT_EQ(theirs.sq_psn, 0x123456U);
  EXPECT_EQ(ours.sq_psn, theirs.rq_psn);
  EXPECT_EQ(ours.max_dest_rd_atomic, 2);
  EXPECT_EQ(theirs.max_rd_atomic, 2);
  EXPECT_EQ(ours.max_rd_atomic, 7);
  EXPECT_EQ(theirs.max_dest_rd_atomic, 7);
  EXPECT_EQ(ours.rnr_retry, 6);
  EXPECT_EQ(theirs.rnr_retry, 3);
  EXPECT_EQ(theirs.retry_cnt, 5);
  EXPECT_EQ(theirs.timeout, 19);
  EXPECT_EQ(ours.path_mtu, theirs.path_mtu);
}

TEST_F(ManagerTest, DataBeforeTheRtuEstablishes) {
  listen();
  const Ends ends = ask();
  ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
  exchange();
  active.expect(EventKind::kReply);
  cut = true;  // the RTU is lost
  ASSERT_TRUE(active.manager.ready(ends.active, {}, now));
  exchange();
  cut = false;
  ASSERT_TRUE(passive.manager.established(ends.passive, now));
  exchange();
  passive.expect(EventKind::kEstablished);
  EXPECT_EQ(passive.manager.next_deadline(), kNever);
  // Said twice, told once.
  ASSERT_TRUE(passive.manager.established(ends.passive, now));
  exchange();
  EXPECT_TRUE(passive.events.empty());
}

TEST_F(ManagerTest, EachLostMessageIsMadeUpFor) {
  // A retransmission's time, if something was lost; a program that answers at once otherwise.
  const auto settle = [this] {
    const int left = lose_count;
    exchange();
    if (lose_count < left) {
      run(7 * kNanosecondsPerSecond);
    }
  };
  for (const char* message : {"REQ", "REP", "RTU", "DREQ", "DREP"}) {
    SCOPED_TRACE(message);
    const ListenerId listener = listen();
    lose = message;
    lose_count = 1;
    Ends ends;
    ends.active = *active.manager.connect(request(), now);
    settle();
    ends.passive = passive.expect(EventKind::kRequest).connection;
    ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
    settle();
    active.expect(EventKind::kReply);
    ASSERT_TRUE(active.manager.ready(ends.active, {}, now));
    settle();
    passive.expect(EventKind::kEstablished);
    ASSERT_TRUE(active.manager.disconnect(ends.active, {}, now));
    settle();
    passive.expect(EventKind::kDisconnecting);
    ASSERT_TRUE(passive.manager.disconnect(ends.passive, {}, now));
    settle();
    EXPECT_FALSE(active.expect(EventKind::kDisconnected).timed_out);
    EXPECT_EQ(lose_count, 0);
    destroy(ends);
    expect_nothing_left();
    passive.manager.stop_listening(listener, now);
    active.events.clear();
    passive.events.clear();
  }
}

TEST_F(ManagerTest, AnImpatientPeerIsAskedToWait) {
  listen();
  const Ends ends = ask();
  run(10 * kNanosecondsPerSecond);  // the REQ is repeated, the program hasn't answered
  EXPECT_EQ(last_as<Mra>(passive).message, MraMessage::kReq);
  EXPECT_EQ(active.manager.state(ends.active), State::kMraReqReceived);
  EXPECT_TRUE(passive.events.empty());
  ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
  run(10 * kNanosecondsPerSecond);  // and so is the REP
  EXPECT_EQ(last_as<Mra>(active).message, MraMessage::kRep);
  EXPECT_EQ(passive.manager.state(ends.passive), State::kMraRepReceived);
  active.expect(EventKind::kReply);
  ASSERT_TRUE(active.manager.ready(ends.active, {}, now));
  exchange();
  passive.expect(EventKind::kEstablished);
}

TEST_F(ManagerTest, PatienceEnds) {
  listen();
  const Ends ends = ask();
  ASSERT_TRUE(passive.manager.wait_longer(ends.passive, 20, now));
  exchange();
  EXPECT_EQ(active.manager.state(ends.active), State::kMraReqReceived);
  cut = true;
  run(200 * kNanosecondsPerSecond);
  active.expect(EventKind::kUnreachable);
}

TEST_F(ManagerTest, TheBacklogIsBounded) {
  listen(4);
  for (std::uint32_t qpn = 100; qpn < 105; ++qpn) {
    ASSERT_TRUE(active.manager.connect(request(qpn), now));
  }
  exchange();
  EXPECT_EQ(passive.events.size(), 2U) << "half of it is for others";
  EXPECT_EQ(passive.manager.counters().dropped_share, 3U);
  EXPECT_EQ(passive.manager.listeners().front().waiting, 2U);
  // An answer makes room: who was dropped asks again.
  const auto first = passive.expect(EventKind::kRequest).connection;
  const auto second = passive.expect(EventKind::kRequest).connection;
  ASSERT_TRUE(passive.manager.accept(first, answer(), now));
  ASSERT_TRUE(passive.manager.reject(second, {}, now));
  run(8 * kNanosecondsPerSecond);
  EXPECT_EQ(passive.events.size(), 2U);
}

TEST_F(ManagerTest, PrivateDataHasItsLimits) {
  listen();
  ConnectParameters wanted = request();
  wanted.private_data.resize(kReqPrivateMax + 1);
  EXPECT_EQ(active.manager.connect(wanted, now).error().code, EINVAL);
  wanted.private_data.resize(kReqPrivateMax, std::byte{5});
  const auto id = *active.manager.connect(wanted, now);
  exchange();
  const Event asked = passive.expect(EventKind::kRequest);
  EXPECT_EQ(asked.private_data, wanted.private_data);
  AcceptParameters given = answer();
  given.private_data.resize(kRepPrivateMax + 1);
  EXPECT_FALSE(passive.manager.accept(asked.connection, given, now));
  given.private_data.assign(kRepPrivateMax, std::byte{6});
  ASSERT_TRUE(passive.manager.accept(asked.connection, given, now));
  exchange();
  EXPECT_EQ(active.expect(EventKind::kReply).private_data, given.private_data);
  const PrivateData too_much(kRtuPrivateMax + 1);
  EXPECT_FALSE(active.manager.ready(id, too_much, now));
  ASSERT_TRUE(active.manager.ready(id, std::span(too_much).first(kRtuPrivateMax), now));
  exchange();
  passive.expect(EventKind::kEstablished);
  EXPECT_FALSE(active.manager.disconnect(id, too_much, now));
}

TEST_F(ManagerTest, CallsOutOfTurnAreRefused) {
  listen();
  const Ends ends = ask();
  EXPECT_FALSE(active.manager.ready(ends.active, {}, now));
  EXPECT_FALSE(active.manager.accept(ends.active, answer(), now));
  EXPECT_FALSE(active.manager.reject(ends.active, {}, now));
  EXPECT_FALSE(passive.manager.established(ends.passive, now));
  EXPECT_FALSE(passive.manager.ready(ends.passive, {}, now));
  EXPECT_FALSE(passive.manager.answer_service(ends.passive, {}, now));
  EXPECT_FALSE(passive.manager.accept(ends.passive + 1, answer(), now));
  EXPECT_FALSE(passive.manager.accept(ends.passive, answer(0), now));
}

TEST_F(ManagerTest, WhatCantBeIsRejectedWithItsReason) {
  listen();
  const auto ask_for = [&](auto change) {
    Req req;
    req.local_id = 5;
    req.qpn = 17;
    req.service_id = kService;
    req.path_mtu = 3;
    req.private_data = request().private_data;
    change(req);
    passive.manager.on_mad(passive.route, build_mad(1, req), now);
    exchange();
    return last_as<Rej>(passive).reason;
  };
  EXPECT_EQ(ask_for([](Req& req) { req.transport = Transport::kRd; }),
            RejectReason::kInvalidTransport);
  EXPECT_EQ(ask_for([](Req& req) { req.transport = Transport::kXrc; }),
            RejectReason::kInvalidTransport);
  EXPECT_EQ(ask_for([](Req& req) { req.path_mtu = 6; }), RejectReason::kInvalidMtu);
  EXPECT_EQ(ask_for([](Req& req) { req.private_data.clear(); }), RejectReason::kUnsupportedRequest);
  EXPECT_EQ(ask_for([](Req& req) { req.service_id += 1; }), RejectReason::kInvalidServiceId);
  EXPECT_TRUE(passive.manager.connections().empty());
}

TEST_F(ManagerTest, AlternatePathsAreRefused) {
  listen();
  const Ends ends = establish();
  passive.manager.on_mad(passive.route, build_mad(9, Lap{ends.active, ends.passive}), now);
  exchange();
  EXPECT_EQ(last_as<Apr>(passive).status, kAprUnsupported);
  passive.manager.on_mad(passive.route, build_mad(9, Lap{ends.active, 12345}), now);
  exchange();
  EXPECT_EQ(last_as<Apr>(passive).status, kAprInvalidId);
}

TEST_F(ManagerTest, NoiseIsCounted) {
  Mad mad = build_mad(1, Rtu{1, 2, {}});
  passive.manager.on_mad(passive.route, std::span(mad).first(255), now);
  mad[2] = std::byte{1};
  passive.manager.on_mad(passive.route, mad, now);
  mad[2] = std::byte{2};
  mad[17] = std::byte{0x30};
  passive.manager.on_mad(passive.route, mad, now);
  passive.manager.on_mad(passive.route, build_mad(1, Req{}), now);
  passive.manager.on_mad(passive.route, build_mad(1, Apr{}), now);
  const Counters& counters = passive.manager.counters();
  EXPECT_EQ(counters.dropped_length, 1U);
  EXPECT_EQ(counters.dropped_header, 1U);
  EXPECT_EQ(counters.dropped_attribute, 1U);
  EXPECT_EQ(counters.dropped_field, 1U);
  EXPECT_EQ(counters.dropped_state, 1U);
}

TEST_F(ManagerTest, WithinOneManagerToo) {
  // Both ends in one daemon, as on the loopback.
  ASSERT_TRUE(active.manager.listen({.service_id = kService}, 0, 1));
  const auto turn = [&] {
    while (auto outgoing = active.manager.next_send()) {
      active.manager.on_mad({.local = outgoing->route.remote, .remote = outgoing->route.local},
                            outgoing->mad, now);
    }
    while (auto event = active.manager.next_event()) {
      active.events.push_back(*event);
    }
  };
  ConnectParameters wanted = request();
  wanted.route.remote = wanted.route.local;
  const auto from = *active.manager.connect(wanted, now);
  turn();
  const auto to = active.expect(EventKind::kRequest).connection;
  ASSERT_TRUE(active.manager.accept(to, answer(), now));
  turn();
  active.expect(EventKind::kReply);
  ASSERT_TRUE(active.manager.ready(from, {}, now));
  turn();
  active.expect(EventKind::kEstablished);
  active.manager.destroy(from, now);
  turn();
  active.expect(EventKind::kDisconnecting);
  active.manager.destroy(to, now);
  turn();
  active.manager.on_time(now + 1000 * kNanosecondsPerSecond);
  EXPECT_TRUE(active.manager.connections().empty());
}

}  // namespace
}  // namespace uroce::control::cm
