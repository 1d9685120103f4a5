#include "tests/cm_sim/world.h"

#include <algorithm>
#include <utility>

namespace uroce::sim {

using namespace control::cm;

namespace {

constexpr std::uint32_t kCutMaxSeconds = 200;  // longer than a REQ is repeated
constexpr std::uint32_t kStillMaxMs = 10'000;
constexpr Duration kBusyFor = 240 * kNanosecondsPerSecond;
constexpr Duration kCalmFor = 1'000 * kNanosecondsPerSecond;
constexpr Duration kEndAfter = 1'000 * kNanosecondsPerSecond;
constexpr Duration kDataInterval = 500 * kNanosecondsPerMillisecond;

}  // namespace

CmWorld::CmWorld(std::uint64_t seed)
    : random_(seed),
      link_(random_),
      talkative_(random_.chance(0.5)),
      hosts_{Host(0, random_, [this](Duration delay, auto task) { later(0, delay, task); }),
             Host(1, random_, [this](Duration delay, auto task) { later(1, delay, task); })} {}

void CmWorld::fail(const std::string& what) {
  if (wrong_.empty()) {
    wrong_ = what;
  }
}

void CmWorld::later(int host, Duration delay, std::function<void()> task) {
  tasks_.emplace(now_ + delay, std::pair(std::pair(host, lives_[host]), std::move(task)));
}

void CmWorld::run_tasks() {
  while (!tasks_.empty() && tasks_.begin()->first <= now_) {
    auto [host_and_life, task] = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    const auto [host, life] = host_and_life;
    if (lives_[host] == life && stands_still(host)) {
      tasks_.emplace(still_until_[host], std::pair(host_and_life, std::move(task)));
    } else if (lives_[host] == life) {
      task();
    }
  }
}

// Delivers the managers' events to programs and their messages to the peer.
void CmWorld::pump() {
  for (int number = 0; number < 2; ++number) {
    Host& host = hosts_[number];
    while (const auto event = host.manager().next_event()) {
      host.on_event(*event, now_);
    }
    while (const auto outgoing = host.manager().next_send()) {
      link_.send(1 - number, *outgoing, now_);
    }
  }
}

Time CmWorld::next_of(int host) {
  const Time deadline = hosts_[host].manager().next_deadline();
  return unread_[host].empty() ? std::max(deadline, still_until_[host])
                               : std::max(now_, still_until_[host]);
}

// After a standstill deadlines are handled first, which is the worse order.
void CmWorld::turn_of(int number) {
  if (stands_still(number)) {
    return;
  }
  Host& host = hosts_[number];
  host.manager().on_time(now_);
  for (const Outgoing& outgoing : std::exchange(unread_[number], {})) {
    host.manager().on_mad(host.route(), outgoing.mad, now_);
  }
}

void CmWorld::run_until(Time end) {
  while (wrong_.empty()) {
    pump();
    const Time next = std::min({link_.next_arrival(), next_of(0), next_of(1),
                                tasks_.empty() ? kNever : tasks_.begin()->first});
    if (next > end) {
      now_ = end;
      break;
    }
    now_ = std::max(now_, next);
    while (link_.next_arrival() <= now_) {
      const Link::Arrival arrival = link_.take();
      Host& host = hosts_[arrival.to];
      if (stands_still(arrival.to)) {
        unread_[arrival.to].push_back(arrival.outgoing);
      } else {
        host.manager().on_mad(host.route(), arrival.outgoing.mad, now_);
      }
    }
    for (int number = 0; number < 2; ++number) {
      turn_of(number);
    }
    pump();  // programs get their events before they act
    run_tasks();
    for (const Host& host : hosts_) {
      if (!host.wrong().empty()) {
        fail(host.wrong());
      }
    }
  }
}

// One random action of a program.
void CmWorld::act() {
  const int number = static_cast<int>(random_.range(0, 1));
  Host& host = hosts_[number];
  if (stands_still(number)) {
    return;
  }
  const std::uint32_t dice = random_.range(1, 200);
  if (dice == 1) {
    ++lives_[number];
    host.restart();
  } else if (dice <= 4) {
    host.crash_program(now_);
  } else if (dice <= 6) {
    link_.cut(now_ + random_.range(1, kCutMaxSeconds) * kNanosecondsPerSecond);
  } else if (dice <= 20) {
    still_until_[number] = now_ + random_.range(1, kStillMaxMs) * kNanosecondsPerMillisecond;
  } else if (dice <= 54) {
    host.disconnect_one(now_);
  } else if (dice <= 69) {
    host.destroy_one(now_);
  } else {
    host.connect(now_);
  }
}

// Each queue pair in RTS sends a packet.
void CmWorld::data_turn() {
  if (stands_still(0) || stands_still(1)) {
    return;  // queue pairs retransmit it
  }
  for (int number = 0; number < 2; ++number) {
    std::vector<ConnectionId> senders;
    for (const auto& [id, end] : hosts_[number].ends()) {
      if (end.sends) {
        senders.push_back(id);
      }
    }
    Host& peer = hosts_[1 - number];
    for (const ConnectionId id : senders) {
      hosts_[number].send_data(
          id,
          [this, &peer](const End& end) {
            return link_.lets_through(now_) && peer.on_data(end.attributes.dest_qpn, end, now_) &&
                   link_.lets_through(now_);
          },
          now_);
    }
  }
}

CmOutcome CmWorld::run() {
  const Time calm = now_ + kBusyFor;
  std::vector<Time> action_times(random_.range(10, 60));
  std::generate(action_times.begin(), action_times.end(),
                [this] { return now_ + random_.next() % kBusyFor; });
  std::sort(action_times.begin(), action_times.end());
  std::size_t next_action = 0;
  for (Time turn = now_; turn < calm + kCalmFor && wrong_.empty(); turn += kDataInterval) {
    run_until(turn);
    while (next_action < action_times.size() && action_times[next_action] <= now_) {
      act();
      ++next_action;
    }
    if (now_ >= calm) {
      link_.calm();
    }
    if (talkative_ || now_ >= calm) {
      data_turn();
    }
  }
  check_agreement();
  for (Host& host : hosts_) {
    host.leave(now_);
  }
  run_until(now_ + kEndAfter);
  check_empty();

  CmOutcome outcome{.wrong = wrong_, .hosts = {}, .link = link_.counts(), .agreed = agreed_};
  for (Host& host : hosts_) {
    const HostCounts& counts = host.counts();
    outcome.hosts.asked += counts.asked;
    outcome.hosts.established += counts.established;
    outcome.hosts.by_data += counts.by_data;
    outcome.hosts.rejected += counts.rejected;
    outcome.hosts.unreachable += counts.unreachable;
    outcome.hosts.disconnected += counts.disconnected;
    outcome.hosts.timed_out += counts.timed_out;
    outcome.hosts.services += counts.services;
    outcome.hosts.crashes += counts.crashes;
    outcome.hosts.restarts += counts.restarts;
    outcome.repeated += host.manager().counters().repeated;
    outcome.stale += host.manager().counters().stale;
  }
  const std::uint64_t no_answer = outcome.hosts.unreachable + outcome.hosts.timed_out;
  if (outcome.wrong.empty() && link_.good() && no_answer != 0) {
    outcome.wrong = "a peer was taken for dead";
  }
  return outcome;
}

// In the calm phase: established at one end means established at both, with each other.
void CmWorld::check_agreement() {
  if (!wrong_.empty()) {
    return;
  }
  for (int number = 0; number < 2; ++number) {
    for (const ConnectionInfo& info : hosts_[number].manager().connections()) {
      const std::string name = "connection " + std::to_string(info.id) + " of host " +
                               std::to_string(number) + " in state " + name_of(info.state);
      if (info.state != State::kEstablished || !info.owned) {
        return fail(name + " is left after the calm");
      }
      const auto& peers = hosts_[1 - number].ends();
      const auto peer = peers.find(info.remote_id);
      if (peer == peers.end() || !peer->second.established || peer->second.over) {
        return fail(name + " isn't established at its peer");
      }
      const End& end = hosts_[number].ends().at(info.id);
      if (peer->second.qpn != end.attributes.dest_qpn ||
          peer->second.attributes.dest_qpn != end.qpn ||
          peer->second.attributes.rq_psn != end.attributes.sq_psn) {
        return fail(name + ": the queue pairs don't agree");
      }
      ++agreed_;
    }
  }
}

void CmWorld::check_empty() {
  for (int number = 0; number < 2; ++number) {
    const Manager& manager = hosts_[number].manager();
    const auto left = manager.connections().size();
    if (left != 0) {
      fail("host " + std::to_string(number) + " has " + std::to_string(left) +
           " connections at the end");
    }
    for (const ListenerInfo& listener : manager.listeners()) {
      if (listener.waiting != 0) {
        fail("a listener still counts " + std::to_string(listener.waiting) + " requests");
      }
    }
    if (manager.next_deadline() != kNever) {
      fail("a timer runs for nothing");
    }
  }
}

}  // namespace uroce::sim
