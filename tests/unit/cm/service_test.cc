// SIDR: datagram services, asked for and answered.

#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class ServiceTest : public Pair {
 protected:
  static constexpr std::uint64_t kDatagrams = service_id(PortSpace::kUdp, 7174);
  ServiceParameters question() {
    ServiceParameters parameters;
    parameters.route = active.route;
    parameters.cookie = 5;
    parameters.service_id = kDatagrams;
    parameters.private_data = with_ip_header({.ipv6 = false,
                                              .source_port = 1,
                                              .source = active.route.local,
                                              .destination = active.route.remote},
                                             PrivateData(180, std::byte{3}));
    return parameters;
  }
  ConnectionId ask() {
    const auto id = *active.manager.resolve_service(question(), now);
    exchange();
    return id;
  }
};

TEST_F(ServiceTest, TellsTheQueuePairOfAService) {
  ASSERT_TRUE(passive.manager.listen({.service_id = kDatagrams}, 0, 9));
  const auto id = ask();
  const Event asked = passive.expect(EventKind::kServiceRequest);
  EXPECT_EQ(asked.cookie, 9U);
  EXPECT_EQ(asked.private_data, question().private_data);
  ASSERT_TRUE(passive.manager.answer_service(
      asked.connection,
      {.status = SidrStatus::kValid,
       .qpn = 33,
       .qkey = 0x1234567,
       .private_data = PrivateData(kSidrRepPrivateMax, std::byte{4})},
      now));
  exchange();
  const Event told = active.expect(EventKind::kServiceReply);
  EXPECT_EQ(told.connection, id);
  EXPECT_EQ(told.cookie, 5U);
  EXPECT_EQ(told.service->status, SidrStatus::kValid);
  EXPECT_EQ(told.service->qpn, 33U);
  EXPECT_EQ(told.service->qkey, 0x1234567U);
  EXPECT_EQ(told.private_data, PrivateData(kSidrRepPrivateMax, std::byte{4}));
  active.manager.destroy(id, now);
  passive.manager.destroy(asked.connection, now);
  expect_nothing_left();
}

TEST_F(ServiceTest, ALostAnswerIsGivenAgain) {
  ASSERT_TRUE(passive.manager.listen({.service_id = kDatagrams}, 0, 9));
  lose = "SIDR_REP";
  lose_count = 1;
  ask();
  const Event asked = passive.expect(EventKind::kServiceRequest);
  ASSERT_TRUE(passive.manager.answer_service(
      asked.connection, {.status = SidrStatus::kValid, .qpn = 33, .qkey = 1, .private_data = {}},
      now));
  passive.manager.destroy(asked.connection, now);
  run(10 * kNanosecondsPerSecond);
  active.expect(EventKind::kServiceReply);
  EXPECT_TRUE(passive.events.empty());
}

// A program may take long: its peer asks again, and gets its answer.
TEST_F(ServiceTest, WhatIsRepeatedStays) {
  ASSERT_TRUE(passive.manager.listen({.service_id = kDatagrams}, 0, 9));
  ask();
  const Event asked = passive.expect(EventKind::kServiceRequest);
  run(60 * kNanosecondsPerSecond);
  EXPECT_EQ(passive.manager.counters().expired, 0U);
  ASSERT_TRUE(passive.manager.answer_service(asked.connection, {.qpn = 33, .qkey = 1}, now));
  exchange();
  EXPECT_EQ(active.expect(EventKind::kServiceReply).service->qpn, 33U);
}

TEST_F(ServiceTest, WhatExpiredIsAskedAnewThoughItsProgramHoldsIt) {
  ASSERT_TRUE(passive.manager.listen({.service_id = kDatagrams}, 0, 9));
  ask();
  const Event first = passive.expect(EventKind::kServiceRequest);
  cut = true;
  run(30 * kNanosecondsPerSecond);
  passive.expect(EventKind::kExpired);
  cut = false;
  run(10 * kNanosecondsPerSecond);
  const Event second = passive.expect(EventKind::kServiceRequest);
  EXPECT_NE(second.connection, first.connection);
  passive.manager.destroy(first.connection, now);
  run(10 * kNanosecondsPerSecond);
  EXPECT_TRUE(passive.events.empty()) << "the second is known by the peer's number";
  ASSERT_TRUE(passive.manager.answer_service(second.connection, {.qpn = 33, .qkey = 1}, now));
  exchange();
  EXPECT_EQ(active.expect(EventKind::kServiceReply).service->qpn, 33U);
}

TEST_F(ServiceTest, WithoutAServiceTheAnswerIsNo) {
  ask();
  EXPECT_EQ(active.expect(EventKind::kServiceReply).service->status, SidrStatus::kUnsupported);
}

TEST_F(ServiceTest, AProgramThatGoesSaysNo) {
  ASSERT_TRUE(passive.manager.listen({.service_id = kDatagrams}, 0, 9));
  ask();
  passive.manager.destroy(passive.expect(EventKind::kServiceRequest).connection, now);
  exchange();
  EXPECT_EQ(active.expect(EventKind::kServiceReply).service->status, SidrStatus::kReject);
}

TEST_F(ServiceTest, NobodyThereIsUnreachable) {
  cut = true;
  ask();
  run(200 * kNanosecondsPerSecond);
  active.expect(EventKind::kUnreachable);
}

TEST_F(ServiceTest, PrivateDataHasItsLimits) {
  ServiceParameters parameters = question();
  parameters.private_data.resize(kSidrReqPrivateMax + 1);
  EXPECT_FALSE(active.manager.resolve_service(parameters, now));
}

}  // namespace
}  // namespace uroce::control::cm
