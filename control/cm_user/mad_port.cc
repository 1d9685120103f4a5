#include "control/cm_user/mad_port.h"

#include <algorithm>

#include "control/ip/path_resolution.h"

namespace uroce::control::cm_user {
namespace {

abi::AddressRecord address_of(const Device& device, const cm::Route& route) {
  abi::AddressRecord address{};
  std::copy(route.remote.bytes.begin(), route.remote.bytes.end(), std::begin(address.dgid));
  address.flow_label = route.flow_label;
  address.hop_limit = route.hop_limit;
  address.traffic_class = route.traffic_class;
  address.sl = route.service_level;
  address.is_global = 1;
  address.port = 1;
  const auto& entries = device.gids().entries();
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (entries[index].address == route.local) {
      address.sgid_index = static_cast<std::uint8_t>(index);
    }
  }
  return address;
}

}  // namespace

void MadPort::send(const cm::Outgoing& outgoing) {
  if (attempt(outgoing) == Attempt::kPending && waiting_.size() < kWaitingMax) {
    waiting_.push_back(outgoing);
  }
}

// A MAD to an unreachable address is treated as lost.
MadPort::Attempt MadPort::attempt(const cm::Outgoing& outgoing) {
  Device& device = host_.devices[outgoing.route.device];
  const abi::AddressRecord address = address_of(device, outgoing.route);
  if (!check_address(device, address)) {
    return Attempt::kDone;
  }
  const auto path = make_path(device, address, kGsiQpn, kGsiQpn, host_.clock());
  if (path && !*path) {
    return Attempt::kPending;
  }
  if (path) {
    (void)gsi_.send(device, **path, kGsiQpn, MadBytes(outgoing.mad));
  }
  return Attempt::kDone;
}

void MadPort::on_addresses_settled() {
  std::deque<cm::Outgoing> again;
  again.swap(waiting_);
  for (const cm::Outgoing& outgoing : again) {
    send(outgoing);
  }
}

void MadPort::on_mad(Device& device, const ReceivedMad& mad) {
  cm::Route route;
  route.device = device.index();
  route.local = mad.reply_path.source_gid;
  route.remote = mad.reply_path.destination_gid;
  route.traffic_class = mad.reply_path.tos;
  receive_(route, mad.bytes);
}

}  // namespace uroce::control::cm_user
