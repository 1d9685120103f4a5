#include "tests/cm_sim/host.h"

#include <algorithm>

#include "base/check.h"

namespace uroce::sim {

using namespace control::cm;

namespace {

constexpr std::uint64_t kStream = service_id(PortSpace::kTcp, 7);
constexpr std::uint64_t kDatagram = service_id(PortSpace::kUdp, 7);
// Few, so that they are reused while the peer may still remember them.
constexpr std::uint32_t kQpnMin = 17, kQpnMax = 60;
constexpr int kFailuresMax = 8;

}  // namespace

Host::Host(int number, Random& random, Later later)
    : number_(number), random_(random), later_(std::move(later)) {
  start();
}

void Host::start() {
  manager_ = std::make_unique<Manager>(random_.next());
  for (const std::uint64_t service : {kStream, kDatagram}) {
    UROCE_CHECK(manager_->listen({.service_id = service}, 0, 1).has_value());
  }
}

Route Host::route() const {
  const char* const addresses[] = {"10.0.0.1", "10.0.0.2"};
  Route route;
  route.local = *parse_ip(addresses[number_]);
  route.remote = *parse_ip(addresses[1 - number_]);
  return route;
}

void Host::fail(const std::string& what) {
  if (wrong_.empty()) {
    wrong_ = "host " + std::to_string(number_) + ": " + what;
  }
}

End* Host::find(Id id) {
  const auto at = ends_.find(id);
  return at == ends_.end() ? nullptr : &at->second;
}

// Usually short; sometimes so long that the peer repeats its message.
Duration Host::thinking_time() {
  return (random_.chance(0.15) ? random_.range(5'000, 30'000) : random_.range(0, 100)) *
         kNanosecondsPerMillisecond;
}

std::uint32_t Host::take_qpn() {
  for (;;) {
    const std::uint32_t qpn = random_.range(kQpnMin, kQpnMax);
    if (qpns_.insert(qpn).second) {
      return qpn;
    }
  }
}

void Host::connect(Time now) {
  if (ends_.size() > (kQpnMax - kQpnMin) / 2) {
    return;
  }
  ++counts_.asked;
  End end;
  end.active = true;
  end.datagram = random_.chance(0.15);
  const PrivateData header = with_ip_header(
      {.ipv6 = false, .source_port = 1, .source = route().local, .destination = route().remote},
      {});
  if (end.datagram) {
    ServiceParameters wanted;
    wanted.route = route();
    wanted.service_id = kDatagram;
    wanted.private_data = header;
    end.id = *manager_->resolve_service(wanted, now);
  } else {
    end.qpn = take_qpn();
    ConnectParameters wanted;
    wanted.route = route();
    wanted.service_id = kStream;
    wanted.ca_guid = static_cast<std::uint64_t>(number_) + 1;
    wanted.qpn = end.qpn;
    wanted.private_data = header;
    end.id = *manager_->connect(wanted, now);
  }
  ends_[end.id] = end;
}

void Host::disconnect_one(Time now) {
  for (auto& [id, end] : ends_) {
    if (end.established && !end.over) {
      // The manager may have begun already, because the peer has lost the connection.
      const bool stale = manager_->state(id) == State::kDreqSent;
      finish(end, now);
      if (!manager_->disconnect(id, {}, now) && !stale) {
        fail("an established connection can't be disconnected");
      }
      return;
    }
  }
}

void Host::destroy_one(Time now) {
  if (!ends_.empty()) {
    const auto at =
        std::next(ends_.begin(), random_.range(0, static_cast<std::uint32_t>(ends_.size() - 1)));
    destroy(at->first, now);
  }
}

void Host::crash_program(Time now) {
  ++counts_.crashes;
  while (!ends_.empty()) {
    destroy(ends_.begin()->first, now);
  }
}

void Host::restart() {
  ++counts_.restarts;
  ends_.clear();
  qpns_.clear();
  start();
}

void Host::leave(Time now) {
  while (!ends_.empty()) {
    destroy(ends_.begin()->first, now);
  }
}

void Host::erase(Id id) {
  if (const End* end = find(id); end != nullptr) {
    qpns_.erase(end->qpn);
    ends_.erase(id);
  }
}

void Host::destroy(Id id, Time now) {
  manager_->destroy(id, now);
  erase(id);
}

void Host::destroy_soon(Id id, const Time& now) {
  later_(random_.range(0, 3'000) * kNanosecondsPerMillisecond,
         [this, id, &now] { destroy(id, now); });
}

// The program doesn't need it any more, and its queue pair is in ERR.
void Host::finish(End& end, const Time&) {
  end.over = true;
  end.receives = end.sends = false;
}

// Each request has one outcome.
void Host::resolve(End& end) {
  if (!end.active || end.resolved) {
    fail("a request has two outcomes");
  }
  end.resolved = true;
}

void Host::on_event(const Event& event, const Time& now) {
  if (event.kind == EventKind::kRequest || event.kind == EventKind::kServiceRequest) {
    on_request(event, now);
    return;
  }
  End* end = find(event.connection);
  if (end == nullptr) {
    fail("an event for a connection that was destroyed");
    return;
  }
  switch (event.kind) {
    case EventKind::kReply:
      resolve(*end);
      on_reply(*end, now);
      return;
    case EventKind::kServiceReply:
      resolve(*end);
      ++counts_.services;
      destroy_soon(end->id, now);
      return;
    case EventKind::kEstablished:
      if (end->active || end->established || end->over) {
        fail("established in the wrong place");
      }
      end->established = end->sends = true;
      ++counts_.established;
      return;
    case EventKind::kRejected:
    case EventKind::kUnreachable:
      if (end->established || end->over) {
        fail("refused after it was established");
      }
      if (end->active && !end->receives) {
        resolve(*end);
      }
      ++(event.kind == EventKind::kRejected ? counts_.rejected : counts_.unreachable);
      break;
    case EventKind::kDisconnecting:
      if (end->over) {
        fail("disconnecting, but it was over");
      }
      later_(thinking_time(), [this, id = end->id, &now] {
        // Or a REJ arrived in between.
        [[maybe_unused]] const Status status = manager_->disconnect(id, {}, now);
        destroy_soon(id, now);
      });
      finish(*end, now);
      return;
    case EventKind::kExpired:
      if (end->active || end->established || end->over) {
        fail("expired in the wrong place");
      }
      break;
    case EventKind::kDisconnected:
      ++(event.timed_out ? counts_.timed_out : counts_.disconnected);
      break;
    default:  // kTimewaitExit: the program need not do anything
      return;
  }
  finish(*end, now);
  destroy_soon(end->id, now);
}

void Host::on_request(const Event& event, const Time& now) {
  if (find(event.connection) != nullptr) {
    fail("a request came twice");
  }
  End end;
  end.id = event.connection;
  end.datagram = event.kind == EventKind::kServiceRequest;
  ends_[end.id] = end;
  later_(thinking_time(), [this, id = end.id, &now] { answer(id, now); });
}

void Host::answer(Id id, Time now) {
  End* end = find(id);
  if (end == nullptr || end->over) {
    return;
  }
  if (random_.chance(0.05)) {
    destroy(id, now);
    return;
  }
  if (end->datagram) {
    if (!manager_->answer_service(id, {.status = SidrStatus::kValid, .qpn = 3, .qkey = 4}, now)) {
      fail("a service request can't be answered");
    }
    destroy(id, now);
    return;
  }
  if (random_.chance(0.1) || qpns_.size() > (kQpnMax - kQpnMin) * 3 / 4) {
    if (!manager_->reject(id, {}, now)) {
      fail("a request can't be rejected");
    }
    destroy(id, now);
    return;
  }
  end->qpn = take_qpn();
  AcceptParameters given;
  given.ca_guid = static_cast<std::uint64_t>(number_) + 1;
  given.qpn = end->qpn;
  if (!manager_->accept(id, given, now)) {
    fail("a request can't be accepted");
    return;
  }
  end->answered = true;
  end->attributes = *manager_->qp_attributes(id, QpState::kRts);
  end->receives = true;
}

void Host::on_reply(End& end, const Time& now) {
  end.attributes = *manager_->qp_attributes(end.id, QpState::kRts);
  end.receives = end.sends = true;  // data may go out before the RTU
  later_(thinking_time(), [this, id = end.id, &now] { complete(id, now); });
}

void Host::complete(Id id, Time now) {
  End* end = find(id);
  if (end == nullptr || end->over) {
    return;
  }
  if (random_.chance(0.05)) {
    if (!manager_->reject(id, {}, now)) {
      fail("a reply can't be rejected");
    }
    destroy(id, now);
  } else if (!manager_->ready(id, {}, now)) {
    fail("a reply can't be completed");
  } else {
    end->established = true;
    ++counts_.established;
  }
}

bool Host::on_data(std::uint32_t qpn, const End& sender, Time now) {
  for (auto& [id, end] : ends_) {
    const bool meant = end.receives && end.qpn == qpn && end.attributes.dest_qpn == sender.qpn &&
                       end.attributes.rq_psn == sender.attributes.sq_psn;
    if (!meant) {
      continue;
    }
    if (!end.active && !end.established && manager_->state(id) != State::kEstablished) {
      ++counts_.by_data;
      [[maybe_unused]] const Status status = manager_->established(id, now);
    }
    return true;
  }
  return false;
}

void Host::send_data(Id id, const std::function<bool(const End&)>& passes, const Time& now) {
  End* end = find(id);
  if (end == nullptr || !end->sends) {
    return;
  }
  if (passes(*end)) {
    end->failures = 0;
    return;
  }
  // IBV_WC_RETRY_EXC_ERR: the program gives up.
  if (++end->failures >= kFailuresMax) {
    finish(*end, now);
    [[maybe_unused]] const Status status = manager_->disconnect(id, {}, now);
    if (manager_->state(id) != State::kDreqSent) {
      destroy_soon(id, now);  // not established yet, so there will be no further event
    }
  }
}

}  // namespace uroce::sim
