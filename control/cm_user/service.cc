#include "control/cm_user/service.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "base/byte_stream.h"
#include "base/memory/memory_reserve.h"
#include "control/cm_user/deliver.h"
#include "control/cm_user/user.h"

namespace uroce::control::cm_user {
namespace {

constexpr Duration kMemoryRetry = 100 * kNanosecondsPerMillisecond;

// The device that has this address; nullptr: none of ours.
const Device* owner_of(const Devices& devices, const cm::Route& route) {
  const Device& sender = devices[route.device];
  if (sender.loops_back() || sender.gids().owns(route.remote)) {
    return &sender;
  }
  return nullptr;
}

Result<Device::Resolution> resolve(const Id& id, Time now, EtherAddress* mac) {
  const std::uint16_t vlan = id.device->gids().vlan_of(id.source.address);
  return id.device->resolve({id.destination.address, vlan}, now, mac, id.user->account().user());
}

}  // namespace

Service::Service(Host host, std::uint64_t seed)
    : host_(std::move(host)),
      gsi_(host_.engine),
      manager_(seed),
      mads_(host_, gsi_, [this](const cm::Route& route, auto bytes) { on_mad(route, bytes); }),
      ports_(seed + 1) {
  gsi_.set_sink(&mads_);
}

void Service::enter(Id* id) {
  id->serial = next_serial_++;
  ids_[id->serial] = id;
}

void Service::leave(const Id& id) {
  ids_.erase(id.serial);
  stop_resolving(id);
  if (const auto at = queue_pairs_.find(id.qpn);
      at != queue_pairs_.end() && at->second == id.serial) {
    queue_pairs_.erase(at);
  }
}

Status Service::may_name_queue_pair(const User& user, std::uint32_t qpn) const {
  const Peer* const owner = host_.owner_of_qp(qpn);
  if (owner == nullptr || owner->uid == user.peer().uid || is_one_process(*owner, user.peer()) ||
      is_administrator(user.peer())) {
    return ok();
  }
  return Error{EPERM, "queue pair " + std::to_string(qpn) +
                          " is another user's: a connection must name one of your own"};
}

void Service::name_queue_pair(const Id& id) {
  if (host_.owner_of_qp(id.qpn) != nullptr) {
    queue_pairs_[id.qpn] = id.serial;
  }
}

Id* Service::find(std::uint64_t serial) const {
  const auto at = ids_.find(serial);
  return at == ids_.end() ? nullptr : at->second;
}

Status Service::start_resolving(Id& id, Time deadline) {
  EtherAddress mac;
  const auto resolution = resolve(id, now(), &mac);
  if (!resolution && resolution.error().code == ENETUNREACH) {
    return resolution.error();
  }
  id.state = IdState::kResolvingAddress;
  id.resolve_deadline = deadline;
  resolving_.insert(waiting(id));
  if (continue_resolving(id)) {
    stop_resolving(id);
  }
  return ok();
}

// True if resolution has finished, successfully or not, as it has at the id's deadline.
bool Service::continue_resolving(Id& id) {
  EtherAddress mac;
  const auto resolution = resolve(id, now(), &mac);
  if (resolution && *resolution == Device::Resolution::kPending) {
    if (now() < id.resolve_deadline) {
      return false;
    }
    report_unresolved(id, ETIMEDOUT);
  } else if (!resolution) {
    report_unresolved(id, resolution.error().code);
  } else {
    report_resolved(id);
  }
  return true;
}

bool Service::has_memory() {
  const bool whole = hold_memory_reserve();
  if (!whole) {
    retry_at_ = now() + kMemoryRetry;
  }
  return whole;
}

void Service::on_addresses_settled() {
  settled_meanwhile_ = true;  // until it is done: memory may run out on the way
  retry_at_ = now() + kMemoryRetry;
  if (has_memory()) {
    mads_.on_addresses_settled();
    continue_resolving_all();
    settled_meanwhile_ = false;
    pump();
  }
}

// The packet begins with the transport headers of a management datagram: BTH and DETH.
void Service::on_path_error(const Device& device, const PathError& error) {
  constexpr std::size_t kMadAt = 20;
  ByteReader reader(error.payload);
  const std::uint8_t opcode = reader.u8();
  reader.skip(4);
  // Without memory: the request is repeated, and meets the same error.
  const bool management = has_memory() &&
                          opcode == static_cast<std::uint8_t>(Opcode::kUdSendOnly) &&
                          reader.u24() == kGsiQpn;
  if (management && error.payload.size() > kMadAt && error.kind != PathError::Kind::kTooBig) {
    const auto mad = error.payload.subspan(kMadAt);
    cm::Route route;
    route.device = device.index();
    route.local = error.source;
    route.remote = error.destination;
    manager_.on_undelivered(route, mad.first(std::min(mad.size(), cm::kMadBytes)),
                            error_number(error.kind), now());
    pump();
  }
}

void Service::continue_resolving_all() {
  for (auto at = resolving_.begin(); at != resolving_.end();) {
    at = continue_resolving(*ids_.at(at->second)) ? resolving_.erase(at) : std::next(at);
  }
}

void Service::on_communication(std::uint32_t qpn) {
  const auto at = queue_pairs_.find(qpn);
  const Id* id = at == queue_pairs_.end() ? nullptr : find(at->second);
  // Without memory: the REP is repeated, and the peer answers with an RTU.
  if (id != nullptr && id->connection && has_memory()) {
    // Fails in every state except the one that waits for the RTU; then there is nothing to do.
    [[maybe_unused]] const Status status = manager_.established(*id->connection, now());
    pump();
  }
}

void Service::on_mad(const cm::Route& route, std::span<const std::byte> bytes) {
  if (!has_memory()) {
    manager_.count_dropped_for_memory();  // the peer repeats it
    return;
  }
  manager_.on_mad(route, bytes, now());
  pump();
}

void Service::on_time() {
  if (next_deadline() > now() || !has_memory()) {
    return;
  }
  if (settled_meanwhile_) {
    on_addresses_settled();
  }
  retry_at_ = now() + kMemoryRetry;  // until pump() has ended: if memory runs out, the rest waits
  manager_.on_time(now());
  // The others wait for on_addresses_settled().
  while (!resolving_.empty() && resolving_.begin()->first <= now()) {
    const auto due = resolving_.begin();
    continue_resolving(*ids_.at(due->second));
    resolving_.erase(due);
  }
  pump();
}

Time Service::next_deadline() const {
  if (retry_at_ != 0) {
    return retry_at_;
  }
  const Time resolving = resolving_.empty() ? kNever : resolving_.begin()->first;
  return std::min(manager_.next_deadline(), resolving);
}

void Service::pump() {
  if (retry_at_ == 0) {
    retry_at_ = now() + kMemoryRetry;  // if memory runs out on the way, on_time() goes on
  }
  try {
    pump_all();
  } catch (const std::bad_alloc&) {
    manager_.count_dropped_for_memory();
  }
}

void Service::pump_all() {
  bool idle = false;
  while (!idle) {
    idle = true;
    while (const auto event = has_memory() ? manager_.next_event() : std::nullopt) {
      deliver(*this, *event);
      idle = false;
    }
    while (const auto outgoing = has_memory() ? manager_.next_send() : std::nullopt) {
      send(*outgoing);
      idle = false;
    }
  }
  if (!settled_meanwhile_ && has_memory()) {
    retry_at_ = 0;
  }
}

// A switch doesn't return a frame to the port it came from, and a loopback port has no peers, so
// messages to our own addresses are delivered here.
void Service::send(const cm::Outgoing& outgoing) {
  const cm::Route& route = outgoing.route;
  if (const Device* owner = owner_of(host_.devices, route); owner != nullptr) {
    cm::Route back = route;
    back.device = owner->index();
    std::swap(back.local, back.remote);
    const Id* const sender = find(outgoing.cookie);
    if (sender != nullptr) {
      back.local_user = sender->user->account().user();
    }
    manager_.on_mad(back, outgoing.mad, now());
  } else {
    mads_.send(outgoing);
  }
}

}  // namespace uroce::control::cm_user
