#include "control/ip/path_resolution.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace uroce::control {
namespace {

constexpr std::uint8_t kHopLimitDefault = 64;
constexpr std::uint32_t kFlowLabelMax = 0xF'FFFF;
constexpr std::uint32_t kPriorityMask = 7;

// The VLAN tag, 0 without a VLAN. On Ethernet a service level is the tag's priority (PCP), which
// has three of verbs' four bits; cards ignore the fourth.
std::uint16_t tag_of(std::uint16_t vlan, std::uint8_t service_level) {
  const std::uint32_t priority = service_level & kPriorityMask;
  return vlan == 0 ? vlan : static_cast<std::uint16_t>(priority << kVlanPriorityShift | vlan);
}

// Programs request one hop (the pingpongs) or none even if there are routers on the path: Linux
// replaces the value by its own default. Not for groups: there the limit determines how far a
// datagram may spread.
std::uint8_t hop_limit_of(const abi::AddressRecord& address, const Gid& destination) {
  return address.hop_limit > 1 || is_multicast(destination) ? address.hop_limit : kHopLimitDefault;
}

Gid destination_of(const abi::AddressRecord& address) {
  Gid gid;
  std::copy(std::begin(address.dgid), std::end(address.dgid), gid.bytes.begin());
  return gid;
}

}  // namespace

Status check_address(const Device& device, const abi::AddressRecord& address) {
  if (address.is_global == 0) {
    return Error{EINVAL, "RoCE needs a global address: set is_global and the GRH"};
  }
  if (address.port != 1) {
    return Error{EINVAL,
                 "a device has one port, number 1, and no port " + std::to_string(address.port)};
  }
  const Gid* source = device.gids().find(address.sgid_index);
  if (source == nullptr) {
    return Error{EINVAL, "GID index " + std::to_string(address.sgid_index) + " of " +
                             device.name() + " is empty"};
  }
  const Gid destination = destination_of(address);
  if (destination.is_zero()) {
    return Error{EINVAL, "the destination GID is empty"};
  }
  if (source->is_ipv4() != destination.is_ipv4()) {
    return Error{EINVAL, "GID index " + std::to_string(address.sgid_index) + " is " +
                             to_string(*source) + ", which can't reach " + to_string(destination) +
                             ": choose an index with an address of the same kind"};
  }
  return ok();
}

Status check_path_mtu(const Device& device, const abi::AddressRecord& address, std::uint32_t code) {
  const Gid destination = destination_of(address);
  const std::uint32_t carried =
      device.path_mtu_code_to(*device.gids().find(address.sgid_index), destination);
  if (carried != 0 && code > carried) {
    return Error{EINVAL, "path_mtu " + std::to_string(mtu_bytes(code)) + " is more than the " +
                             std::to_string(mtu_bytes(carried)) + " that the path to " +
                             to_string(destination) + " carries"};
  }
  return ok();
}

Result<std::optional<Path>> make_path(Device& device, const abi::AddressRecord& address,
                                      std::uint32_t qpn, std::uint32_t remote_qpn, Time now,
                                      Neighbours::Asker asker) {
  Path path;
  path.source_mac = device.mac();
  path.source_gid = *device.gids().find(address.sgid_index);
  path.destination_gid = destination_of(address);
  path.flow_label = address.flow_label & kFlowLabelMax;
  path.tos = address.traffic_class;
  path.hop_limit = hop_limit_of(address, path.destination_gid);
  path.udp_source_port = udp_source_port(path.flow_label, qpn, remote_qpn);
  const IpPrefix* own = device.gids().entry_of(path.destination_gid);
  // Messages to our own address use its VLAN, whatever their source.
  const std::uint16_t vlan = own != nullptr ? own->vlan : device.gids().vlan_of(path.source_gid);
  path.vlan = tag_of(vlan, address.sl);
  const auto resolution =
      device.resolve({path.destination_gid, vlan}, now, &path.destination_mac, asker);
  if (!resolution) {
    return resolution.error();
  }
  if (*resolution == Device::Resolution::kPending) {
    return std::optional<Path>();
  }
  return std::optional<Path>(path);
}

}  // namespace uroce::control
