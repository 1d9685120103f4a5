// Admission to a listener's backlog, and expiry of the requests in it.

#include "control/cm/limits.h"
#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class BacklogTest : public Pair {
 protected:
  // A REQ as the active side sends it, as if from another address.
  Mad request_mad(std::uint64_t service = kService) {
    auto parameters = request(next_qpn_++);
    parameters.service_id = service;
    EXPECT_TRUE(active.manager.connect(parameters, now));
    return active.manager.next_send()->mad;
  }
  // One whose sender takes and gives other times: codes of 4.096 us * 2^n.
  Mad request_mad(std::uint8_t sender_answers_in, std::uint8_t receiver_answers_in) {
    MadFault fault{};
    auto envelope = *parse_mad(request_mad(), &fault);
    Req& req = std::get<Req>(envelope.message);
    req.local_response_timeout = sender_answers_in;
    req.remote_response_timeout = receiver_answers_in;
    return build_mad(envelope.transaction, envelope.message);
  }
  void arrive_from(const char* source, const Mad& mad) {
    passive.manager.on_mad({.local = passive.route.local, .remote = *parse_ip(source)}, mad, now);
    while (auto event = passive.manager.next_event()) {
      passive.events.push_back(*event);
    }
  }
  std::size_t requests() {
    const std::size_t count = passive.events.size();
    passive.events.clear();
    return count;
  }

 private:
  std::uint32_t next_qpn_ = 100;
};

TEST_F(BacklogTest, OneSenderLeavesRoomForOthers) {
  listen(8);
  for (int i = 0; i < 20; ++i) {
    arrive_from("10.0.0.66", request_mad());
  }
  EXPECT_EQ(requests(), 4U);
  EXPECT_EQ(passive.manager.counters().dropped_share, 16U);
  for (int i = 0; i < 20; ++i) {
    arrive_from("10.0.0.67", request_mad());
  }
  EXPECT_EQ(requests(), 2U) << "half of what the first left";
  arrive_from("10.0.0.1", request_mad());
  EXPECT_EQ(requests(), 1U);
}

// One machine can use any number of addresses of its network.
TEST_F(BacklogTest, ANetworkOfIpv6CountsAsOneSender) {
  listen(8);
  for (const char* source : {"fd00:1::1", "fd00:1::2", "fd00:1::3", "fd00:1::4", "fd00:1::5"}) {
    arrive_from(source, request_mad());
  }
  EXPECT_EQ(requests(), 4U);
  arrive_from("fd00:2::1", request_mad());
  EXPECT_EQ(requests(), 1U);
}

// With 8 listeners of 4096 a flood of all could take all places.
TEST_F(BacklogTest, OneSenderLeavesRoomInAllBacklogsTogether) {
  constexpr std::uint64_t kListeners = 8;
  for (std::uint64_t i = 0; i < kListeners; ++i) {
    ASSERT_TRUE(passive.manager.listen({.service_id = kService + i}, kBacklogMax, 1));
  }
  for (std::size_t i = 0; i < kUnansweredMax; ++i) {
    arrive_from("10.0.0.66", request_mad(kService + i % kListeners));
  }
  EXPECT_EQ(requests(), kUnansweredMax / 2);
  arrive_from("10.0.0.1", request_mad());
  EXPECT_EQ(requests(), 1U);
}

TEST_F(BacklogTest, AnEventSaysHowManyOfTheSendersAreAheadOfIt) {
  listen(16);
  for (int i = 0; i < 3; ++i) {
    arrive_from("10.0.0.66", request_mad());
  }
  arrive_from("10.0.0.1", request_mad());
  ASSERT_EQ(passive.events.size(), 4U);
  EXPECT_EQ(passive.events[2].earlier_from_sender, 2U);
  EXPECT_EQ(passive.events[3].earlier_from_sender, 0U);
}

// A flooding sender doesn't repeat its requests.
TEST_F(BacklogTest, WhatNobodyRepeatsExpires) {
  listen(8);
  for (int i = 0; i < 4; ++i) {
    arrive_from("10.0.0.66", request_mad());
  }
  EXPECT_EQ(requests(), 4U);
  now += 21 * kNanosecondsPerSecond;
  for (Time due = passive.manager.next_deadline(); due <= now;
       due = passive.manager.next_deadline()) {
    passive.manager.on_time(due);  // in time: a late poll counts as a standstill of our own
  }
  exchange();
  EXPECT_EQ(passive.manager.counters().expired, 4U);
  EXPECT_EQ(passive.manager.listeners().front().waiting, 0U);
  const Event event = passive.expect(EventKind::kExpired);
  EXPECT_FALSE(passive.manager.accept(event.connection, answer(), now));
  arrive_from("10.0.0.66", request_mad());
  EXPECT_EQ(passive.events.back().kind, EventKind::kRequest);
}

// The sender repeats its REQ after the time that it gives the receiver, and twice the packet
// lifetime of 1.07 s. How fast it answers itself doesn't count.
TEST_F(BacklogTest, ARequestExpiresByTheTimeThatItsSenderGivesTheReceiver) {
  constexpr Duration kLifetimes = 2 * (Duration{4096} << 18U);
  constexpr Duration kOurs = Duration{4096} << 19U;
  listen();
  const Mad mad = request_mad(0, 19);
  arrive_from("10.0.0.66", mad);
  EXPECT_EQ(passive.manager.next_deadline(), now + 3 * (kOurs + kLifetimes));
  now += kNanosecondsPerSecond;
  arrive_from("10.0.0.66", mad);  // answered with an MRA of 69 s
  EXPECT_EQ(passive.manager.next_deadline(),
            now + (Duration{4096} << 24U) + 3 * (kOurs + kLifetimes));
  arrive_from("10.0.0.67", request_mad(31, 0));
  EXPECT_EQ(passive.manager.next_deadline(), now + 3 * (Duration{4096} + kLifetimes));
}

// A program may answer late: its peer repeats the request, gets an MRA, and then the answer.
TEST_F(BacklogTest, WhatIsRepeatedStays) {
  listen();
  const Ends ends = ask();
  run(100 * kNanosecondsPerSecond);
  EXPECT_EQ(passive.manager.counters().expired, 0U);
  ASSERT_TRUE(passive.manager.accept(ends.passive, answer(), now));
  exchange();
  active.expect(EventKind::kReply);
}

}  // namespace
}  // namespace uroce::control::cm
