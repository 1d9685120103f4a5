// ICMP errors about undelivered MADs end requests, but not exchanges that have been
// answered.

#include <cerrno>

#include "control/cm/manager.h"
#include "tests/unit/cm/pair.h"

namespace uroce::control::cm {
namespace {

class UndeliveredTest : public Pair {
 protected:
  // The part of the last message that an ICMP error quotes.
  void undelivered(std::size_t bytes = 200) {
    const Mad& mad = active.sent.back().mad;
    active.manager.on_undelivered(active.route, std::span(mad).first(bytes), ECONNREFUSED, now);
    exchange();
  }
};

TEST_F(UndeliveredTest, ARequestEndsAtOnce) {
  cut = true;
  ASSERT_TRUE(active.manager.connect(request(17), now));
  exchange();
  undelivered();
  EXPECT_EQ(active.expect(EventKind::kUnreachable).error, ECONNREFUSED);
}

TEST_F(UndeliveredTest, WhatIsForgedEndsNothing) {
  cut = true;
  ASSERT_TRUE(active.manager.connect(request(17), now));
  exchange();
  undelivered(23);  // the transaction isn't all of what must be right
  Mad guessed = active.sent.back().mad;
  guessed[8] ^= std::byte{1};  // the random part of the transaction
  active.manager.on_undelivered(active.route, guessed, ECONNREFUSED, now);
  Route elsewhere = active.route;
  elsewhere.remote = *parse_ip("10.0.0.3");
  active.manager.on_undelivered(elsewhere, active.sent.back().mad, ECONNREFUSED, now);
  exchange();
  EXPECT_TRUE(active.events.empty());
}

TEST_F(UndeliveredTest, WhatWasAnsweredGoesOn) {
  listen();
  const Ends ends = establish();
  for (const Outgoing& outgoing : std::vector<Outgoing>(active.sent)) {
    active.manager.on_undelivered(active.route, outgoing.mad, ECONNREFUSED, now);
  }
  exchange();
  EXPECT_TRUE(active.events.empty());
  EXPECT_EQ(active.manager.state(ends.active), State::kEstablished);
}

}  // namespace
}  // namespace uroce::control::cm
