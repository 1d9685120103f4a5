#pragma once

// Two connection managers, joined by a wire that a test can observe and cut.

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <vector>

#include "control/cm/ip_service.h"
#include "control/cm/manager.h"

namespace uroce::control::cm {

struct Side {
  explicit Side(std::uint64_t seed, const char* own, const char* peer) : manager(seed) {
    route.local = *parse_ip(own);
    route.remote = *parse_ip(peer);
  }
  Manager manager;
  Route route;
  std::deque<Event> events;
  std::vector<Outgoing> sent;  // all that it ever sent

  // The next event, which must be of this kind.
  Event expect(EventKind kind) {
    if (events.empty()) {
      ADD_FAILURE() << "no event; " << static_cast<int>(kind) << " was expected";
      return {};
    }
    Event event = events.front();
    events.pop_front();
    EXPECT_EQ(event.kind, kind);
    return event;
  }
};

class Pair : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kService = service_id(PortSpace::kTcp, 7174);

  Side active{1, "10.0.0.1", "10.0.0.2"};
  Side passive{2, "10.0.0.2", "10.0.0.1"};
  Time now = 1'000;
  bool cut = false;  // nothing arrives
  // Injects losses: drops the next messages of this name.
  const char* lose = nullptr;
  int lose_count = 0;

  static Message message_of(const Mad& mad) {
    MadFault fault{};
    const auto envelope = parse_mad(mad, &fault);
    EXPECT_TRUE(envelope.has_value());
    return envelope ? envelope->message : Message{};
  }
  static std::string last_sent(const Side& side) {
    return side.sent.empty() ? "" : name_of(message_of(side.sent.back().mad));
  }
  template <typename Kind>
  static Kind last_as(const Side& side) {
    const Message message = message_of(side.sent.back().mad);
    EXPECT_TRUE(std::holds_alternative<Kind>(message)) << name_of(message);
    return std::holds_alternative<Kind>(message) ? std::get<Kind>(message) : Kind{};
  }

  bool is_lost(const Mad& mad) {
    if (lose != nullptr && lose_count > 0 && std::string(lose) == name_of(message_of(mad))) {
      --lose_count;
      return true;
    }
    return cut;
  }

  bool move(Side& from, Side& to) {
    bool moved = false;
    while (auto outgoing = from.manager.next_send()) {
      moved = true;
      from.sent.push_back(*outgoing);
      if (!is_lost(outgoing->mad)) {
        to.manager.on_mad({.local = outgoing->route.remote, .remote = outgoing->route.local},
                          outgoing->mad, now);
      }
    }
    while (auto event = from.manager.next_event()) {
      from.events.push_back(*event);
    }
    return moved;
  }
  void exchange() {
    bool moved = true;
    while (moved) {
      moved = move(active, passive);
      moved = move(passive, active) || moved;
    }
  }
  // Runs until no timer is pending, or `limit` has passed.
  void run(Duration limit) {
    const Time end = now + limit;
    for (;;) {
      exchange();
      const Time next = std::min(active.manager.next_deadline(), passive.manager.next_deadline());
      if (next > end) {
        now = end;
        return;
      }
      now = next;
      active.manager.on_time(now);
      passive.manager.on_time(now);
    }
  }

  ListenerId listen(std::uint32_t backlog = 0) {
    return *passive.manager.listen({.service_id = kService}, backlog, 77);
  }
  ConnectParameters request(std::uint32_t qpn = 17) {
    ConnectParameters parameters;
    parameters.route = active.route;
    parameters.cookie = 11;
    parameters.service_id = kService;
    parameters.ca_guid = 0xA1;
    parameters.qpn = qpn;
    parameters.private_data = with_ip_header({.ipv6 = false,
                                              .source_port = 4000,
                                              .source = active.route.local,
                                              .destination = active.route.remote},
                                             {});
    return parameters;
  }
  AcceptParameters answer(std::uint32_t qpn = 18) {
    AcceptParameters parameters;
    parameters.cookie = 22;
    parameters.ca_guid = 0xB2;
    parameters.qpn = qpn;
    return parameters;
  }
  struct Ends {
    ConnectionId active = 0, passive = 0;
  };
  // Both sides, up to the REQ's event.
  Ends ask() {
    Ends ends;
    ends.active = *active.manager.connect(request(), now);
    exchange();
    ends.passive = passive.expect(EventKind::kRequest).connection;
    return ends;
  }
  Ends establish() {
    const Ends ends = ask();
    EXPECT_TRUE(passive.manager.accept(ends.passive, answer(), now));
    exchange();
    EXPECT_EQ(active.expect(EventKind::kReply).connection, ends.active);
    EXPECT_TRUE(active.manager.ready(ends.active, {}, now));
    exchange();
    EXPECT_EQ(passive.expect(EventKind::kEstablished).connection, ends.passive);
    return ends;
  }
  void destroy(const Ends& ends) {
    active.manager.destroy(ends.active, now);
    passive.manager.destroy(ends.passive, now);
  }
  // All tables are empty once all pending exchanges and timers have ended.
  void expect_nothing_left() {
    run(1000 * kNanosecondsPerSecond);
    EXPECT_TRUE(active.manager.connections().empty());
    EXPECT_TRUE(passive.manager.connections().empty());
  }
};

}  // namespace uroce::control::cm
