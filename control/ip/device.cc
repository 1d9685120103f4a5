#include "control/ip/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <utility>

#include "control/ip/frames/icmp.h"
#include "control/ip/limits.h"
#include "dataplane/wire/limits.h"

namespace uroce::control {
namespace {

// Values of enum ibv_port_state, ibv_gid_type, and of ibv_port_attr's plain numbers.
constexpr std::uint32_t kPortDown = 1;
constexpr std::uint32_t kPortActive = 4;
constexpr std::uint32_t kPhysPolling = 2;
constexpr std::uint32_t kPhysLinkUp = 5;
constexpr std::uint32_t kGidRoceV2 = 2;

struct Rate {
  std::uint32_t mbps_max, width, speed;  // codes of ibv_port_attr
};
// Linux's mapping for an Ethernet link whose lanes are unknown (ib_get_eth_speed).
constexpr Rate kRates[] = {
    {1'000, 1, 1},    {10'000, 1, 8},   {20'000, 2, 2},   {25'000, 1, 32},       {40'000, 2, 8},
    {50'000, 16, 32}, {100'000, 2, 32}, {200'000, 2, 64}, {0xFFFF'FFFF, 2, 128},
};
constexpr std::uint32_t kSpeedUnknown = 10'000;

std::uint32_t speed_of(const PortInfo& info) {
  return info.speed_mbps != 0 ? info.speed_mbps : kSpeedUnknown;
}

template <std::size_t kSize>
void copy_text(char (&target)[kSize], std::string_view text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(target, text.data(), length);
  std::memset(target + length, 0, kSize - length);
}

std::uint64_t guid_of(const EtherAddress& mac) {
  std::uint64_t guid = 0;
  std::memcpy(&guid, link_local_gid(mac).bytes.data() + 8, sizeof(guid));
  return guid;
}

}  // namespace

Device::Device(std::uint32_t index, Port& port, std::vector<IpPrefix> addresses,
               const Identity& identity, SendFrame send)
    : index_(index),
      name_("uroce" + std::to_string(index)),
      port_(port),
      mac_(port.info().mac),
      node_guid_(guid_of(mac_)),
      loops_back_(port.info().loops_back),
      resolves_itself_(port.info().resolves_itself),
      has_link_(!loops_back_ && !resolves_itself_),
      identity_(identity),
      gids_(mac_, std::move(addresses), resolves_itself_ ? LinkLocal::kNone : LinkLocal::kFromMac),
      send_(std::move(send)),
      link_up_(port.info().link_up) {}

std::optional<bool> Device::link_change() const {
  const bool up = port_.info().link_up;
  return link_up_ == up ? std::nullopt : std::optional(up);
}

std::optional<EtherAddress> Device::mac_change() const {
  const EtherAddress mac = port_.info().mac;
  return mac_ == mac ? std::nullopt : std::optional(mac);
}

void Device::follow_mac(const EtherAddress& mac) {
  gids_.follow_mac(mac);
  claims_.forget_all();  // it may have been ours already
}

// At most as many as the daemon may have unresolved at a time.
void Device::ask_again(Time now) {
  claims_.forget_all();
  announce();
  neighbours_.forget_answers(now);
  for (const auto& [address, mac] : moves_.used()) {
    EtherAddress ignored;
    if (neighbours_.resolve(address, now, &ignored) == Neighbours::Answer::kFull) {
      return;
    }
  }
}

std::uint32_t Device::active_mtu_code() const { return path_mtu_code(port_.info().mtu); }

std::uint32_t Device::path_mtu_code_to(const Gid& source, const Gid& peer) const {
  return path_mtu_code(std::min(port_.info().mtu, port_.mtu_to(source, peer)));
}

std::uint32_t Device::speed_mbps() const { return speed_of(port_.info()); }

abi::DeviceRecord Device::record() const {
  abi::DeviceRecord record{};
  copy_text(record.name, name_);
  record.node_guid = node_guid_;
  record.index = index_;
  record.instance = identity_.instance;
  record.vendor_id = identity_.vendor_id;
  record.vendor_part_id = identity_.vendor_part_id;
  record.hw_ver = identity_.hw_ver;
  return record;
}

void Device::fill_port(abi::QueryPortReply* reply) const {
  const PortInfo info = port_.info();
  const Rate* rate =
      std::find_if(std::begin(kRates), std::end(kRates),
                   [mbps = speed_of(info)](const Rate& r) { return mbps <= r.mbps_max; });
  reply->state = info.link_up ? kPortActive : kPortDown;
  reply->phys_state = info.link_up ? kPhysLinkUp : kPhysPolling;
  reply->max_mtu = kPathMtuCodeMax;
  reply->active_mtu = path_mtu_code(info.mtu);
  reply->gid_count = kGidsMax;
  reply->max_msg_size = kMessageBytesMax;
  reply->pkey_count = kPkeysMax;
  reply->active_width = rate->width;
  reply->active_speed = rate->speed;
  reply->netdev_index = netdev_index_;
}

void Device::fill_gid(std::uint32_t index, abi::QueryGidReply* reply) const {
  if (const Gid* gid = gids_.find(index); gid != nullptr) {
    std::memcpy(reply->gid, gid->bytes.data(), sizeof(reply->gid));
    reply->type = kGidRoceV2;
    reply->netdev_index = netdev_index_;
  }
}

Result<Device::Resolution> Device::resolve(const LinkAddress& address, Time now, EtherAddress* mac,
                                           Neighbours::Asker asker) {
  const Gid& gid = address.gid;
  if (is_multicast(gid)) {
    *mac = multicast_mac(gid);
    return Resolution::kDone;
  }
  if (loops_back_ || gids_.owns(gid)) {
    *mac = mac_;
    return Resolution::kDone;
  }
  if (resolves_itself_) {
    const auto& ours = gids_.entries();
    const auto source = std::find_if(ours.begin(), ours.end(), [&](const IpPrefix& entry) {
      return !entry.address.is_zero() && entry.address.is_ipv4() == gid.is_ipv4();
    });
    if (source != ours.end() && port_.mtu_to(source->address, gid) == 0) {
      return Error{ENETUNREACH, "this machine has no route to " + to_string(gid) +
                                    " (`ip route` lists those it has)"};
    }
    *mac = stand_in_mac(gid);
    return Resolution::kDone;
  }
  const std::optional<LinkAddress> hop = next_hop(address);
  if (!hop) {
    const std::string where = address.vlan != 0 ? " in VLAN " + std::to_string(address.vlan) : "";
    return Error{ENETUNREACH, to_string(gid) + " isn't in a subnet of " + name_ + where +
                                  "; give it one with --ip, or a router with --route"};
  }
  switch (neighbours_.resolve(*hop, now, mac, asker)) {
    case Neighbours::Answer::kKnown:
      moves_.path_made(*hop, *mac);
      return Resolution::kDone;
    case Neighbours::Answer::kPending:
      return Resolution::kPending;
    case Neighbours::Answer::kUnreachable:
      return Error{EHOSTUNREACH, to_string(hop->gid) + " doesn't answer on the link of " + name_};
    case Neighbours::Answer::kFull:
      break;
  }
  return Error{ENOMEM, "too many unresolved addresses (ARP, neighbour discovery) on " + name_ +
                           ": a user has at most half of what others leave of " +
                           std::to_string(Neighbours::kUnansweredMax)};
}

bool Device::on_time(Time now) {
  bool settled = false;
  for (const LinkAddress& address : neighbours_.due(now, &settled)) {
    ask(address);
  }
  for (const LinkAddress& group : group_answers_.due(now)) {
    if (groups_.all().contains(group.gid)) {
      report_group(group.gid, true, group.vlan);
    }
  }
  return settled;
}

bool Device::on_frame(std::span<const std::byte> bytes, Time now) {
  const auto frame = parse_ethernet(bytes);
  if (!frame || !has_link_ || frame->source == mac_) {
    return false;
  }
  if (const auto arp = parse_arp(*frame)) {
    return on_arp(*frame, *arp, now);
  }
  if (const auto message = parse_neighbour_message(*frame)) {
    return on_neighbour_message(*frame, *message, now);
  }
  if (const auto query = parse_group_query(*frame)) {
    plan_answers(*query, frame->vlan_id(), now);
    return false;
  }
  if (const auto reply = answer_echo(*frame, mac_, [this, vlan = frame->vlan_id()](const Gid& gid) {
        return gids_.owns({gid, vlan});
      })) {
    send_(*reply);
  }
  return false;
}

std::optional<PathError> Device::path_error(std::span<const std::byte> bytes) const {
  const auto frame = parse_ethernet(bytes);
  auto error = frame ? parse_path_error(*frame) : std::nullopt;
  return error && gids_.owns(error->source) ? error : std::nullopt;
}

bool Device::on_arp(const EthernetFrame& frame, const Arp& arp, Time now) {
  const std::uint16_t vlan = frame.vlan_id();
  const bool for_us = gids_.owns({arp.target, vlan});
  const bool settled = learn_neighbour({arp.sender, vlan}, arp.sender_mac, for_us, now);
  if (arp.request && for_us) {
    send_(build_arp_reply(frame, arp, mac_));
  }
  return settled;
}

bool Device::on_neighbour_message(const EthernetFrame& frame, const NeighbourMessage& message,
                                  Time now) {
  const std::uint16_t vlan = frame.vlan_id();
  if (!message.solicitation) {
    return learn_neighbour({message.target, vlan}, message.link_address.value_or(frame.source),
                           false, now);
  }
  if (message.link_address) {
    hear_claim({message.source, vlan}, *message.link_address, now);
  }
  if (!gids_.owns({message.target, vlan})) {
    return false;
  }
  send_(build_advertisement(frame, message, mac_));
  return message.link_address &&
         learn_neighbour({message.source, vlan}, *message.link_address, true, now);
}

// Where `address` is ours, another host uses it if `mac` isn't ours. That host is to hear of it
// too: an advertisement isn't answered, so what it announced itself doesn't tell it.
void Device::hear_claim(const LinkAddress& address, const EtherAddress& mac, Time now) {
  if (gids_.owns(address) && mac != mac_ && claims_.heard(address.gid, mac, now)) {
    announce(address);
  }
}

// Learns that `address` is at `mac`. True: this was requested.
bool Device::learn_neighbour(const LinkAddress& address, const EtherAddress& mac, bool for_us,
                             Time now) {
  const Gid& gid = address.gid;
  constexpr Gid kUnspecifiedIpv4 = mapped_gid(std::uint32_t{0});
  if (gid.is_zero() || gid == kUnspecifiedIpv4 || is_multicast(gid) || !gids_.on_link(address)) {
    return false;
  }
  if (gids_.owns(gid)) {
    hear_claim(address, mac, now);
    return false;
  }
  moves_.announced(address, mac);
  return neighbours_.learn(address, mac, now, for_us);
}

// Sent from our first address in the same subnet, else (for link-local addresses in a VLAN) of the
// same family.
void Device::ask(const LinkAddress& address) {
  const Gid& gid = address.gid;
  const IpPrefix* ours = nullptr;
  for (const IpPrefix& entry : gids_.entries()) {
    if (entry.vlan != address.vlan || entry.address.is_zero() ||
        entry.address.is_ipv4() != gid.is_ipv4()) {
      continue;
    }
    if (entry.contains(gid)) {
      ours = &entry;
      break;
    }
    ours = ours == nullptr ? &entry : ours;
  }
  if (ours != nullptr) {
    const LinkAddress source(ours->address, ours->vlan);
    send_(gid.is_ipv4() ? build_arp_request(mac_, source, gid)
                        : build_solicitation(mac_, source, gid));
  }
}

void Device::announce() {
  for (const LinkAddress& address : gids_.addresses()) {
    announce(address);
  }
}

void Device::announce(const LinkAddress& address) {
  if (has_link_) {
    send_(address.gid.is_ipv4() ? build_arp_request(mac_, address, address.gid)
                                : build_announcement(mac_, address));
  }
}

Result<std::uint32_t> Device::add_address(const IpPrefix& prefix) {
  auto index = gids_.add(prefix);
  if (index) {
    announce({prefix.address, prefix.vlan});
  }
  return index;
}

Status Device::remove_address(const Gid& address) {
  Status removed = gids_.remove(address);
  if (removed) {
    claims_.forget(address);
  }
  return removed;
}

std::optional<LinkAddress> Device::next_hop(const LinkAddress& address) const {
  if (gids_.on_link(address)) {
    return address;
  }
  const auto gateway = gateways_.find(address.gid, [&](const Gid& router) {
    return gids_.on_link({router, address.vlan});
  });
  return gateway ? std::optional(LinkAddress(*gateway, address.vlan)) : std::nullopt;
}

Status Device::join_group(const Gid& group) {
  if (resolves_itself_) {
    return Error{EOPNOTSUPP, "a udp port (" + name_ + ") carries no multicast"};
  }
  const auto first = groups_.join(group);
  if (!first) {
    return first.error();
  }
  if (*first) {
    report_group(group, true, std::nullopt);
  }
  return ok();
}

void Device::leave_group(const Gid& group) noexcept {
  if (!groups_.leave(group)) {
    return;
  }
  try {
    report_group(group, false, std::nullopt);
  } catch (const std::bad_alloc&) {
    // Routers notice that nobody answers their queries for it.
  }
}

// Where we have no address of its family, there is nobody to answer.
void Device::plan_answers(const GroupQuery& query, std::uint16_t vlan, Time now) {
  const std::vector<LinkAddress> ours = gids_.addresses();
  if (std::none_of(ours.begin(), ours.end(), [&](const LinkAddress& address) {
        return address.vlan == vlan && address.gid.is_ipv4() == query.ipv4;
      })) {
    return;
  }
  for (const Gid& group : groups_.asked_for(query)) {
    group_answers_.plan({group, vlan}, now, query.answer_within);
  }
}

// Sent from our first address of the group's family; MLD's must be link-local. In `vlan`, or
// otherwise in every VLAN where we have such an address: groups are received in all of them.
void Device::report_group(const Gid& group, bool joined, std::optional<std::uint16_t> vlan) {
  std::set<std::uint16_t> told;
  for (const LinkAddress& address : gids_.addresses()) {
    const bool wanted =
        address.gid.is_ipv4() == group.is_ipv4() && (!vlan || address.vlan == *vlan);
    if (has_link_ && wanted && told.insert(address.vlan).second) {
      send_(joined ? build_group_report(mac_, address, group)
                   : build_group_leave(mac_, address, group));
    }
  }
}

}  // namespace uroce::control
