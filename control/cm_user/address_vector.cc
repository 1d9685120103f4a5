#include "control/cm_user/address_vector.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "control/cm_user/limits.h"
#include "control/ip/device.h"

namespace uroce::control::cm_user {
namespace {

constexpr std::uint8_t kExactly = 2;  // IB_SA_EQ

// enum ib_rate: the code of the port's speed.
std::uint8_t rate_code(std::uint32_t mbps) {
  struct Rate {
    std::uint32_t mbps_max;
    std::uint8_t code;
  };
  constexpr Rate kRates[] = {{2'500, 2},    {10'000, 3},   {20'000, 6},      {25'000, 15},
                             {40'000, 7},   {50'000, 20},  {56'000, 12},     {100'000, 16},
                             {200'000, 17}, {400'000, 21}, {0xFFFF'FFFF, 23}};
  const Rate* rate = std::find_if(std::begin(kRates), std::end(kRates),
                                  [mbps](const Rate& r) { return mbps <= r.mbps_max; });
  return rate->code;
}

std::uint8_t gid_index(const Id& id) {
  const auto& entries = id.device->gids().entries();
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (entries[index].address == id.source.address) {
      return static_cast<std::uint8_t>(index);
    }
  }
  return 0;
}

// A type of service requests low delay (bit 4), high throughput (bit 3), both or neither; Linux's
// table ip_tos2prio maps it to a priority (RFC 1349, rt_tos2priority).
std::uint8_t priority_of(std::uint8_t type_of_service) {
  constexpr std::uint8_t kPriorities[] = {0, 2, 6, 4};
  return kPriorities[(type_of_service >> 3U) & 3U];
}

}  // namespace

std::uint8_t service_level(const Id& id) {
  if (id.device->gids().vlan_of(id.source.address) == 0) {
    return 0;
  }
  return id.service_level.value_or(priority_of(id.traffic_class));
}

ib_uverbs_ah_attr address_vector(const Id& id, const Gid& remote) {
  ib_uverbs_ah_attr address{};
  std::memcpy(address.grh.dgid, remote.bytes.data(), sizeof(address.grh.dgid));
  address.grh.sgid_index = gid_index(id);
  address.grh.hop_limit = kHopLimit;
  address.grh.traffic_class = id.traffic_class;
  address.sl = service_level(id);
  address.is_global = 1;
  address.port_num = 1;
  return address;
}

ib_user_path_rec path_record(const Id& id) {
  ib_user_path_rec path{};
  std::memcpy(path.dgid, id.destination.address.bytes.data(), sizeof(path.dgid));
  std::memcpy(path.sgid, id.source.address.bytes.data(), sizeof(path.sgid));
  path.hop_limit = kHopLimit;
  path.traffic_class = id.traffic_class;
  path.sl = service_level(id);
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htons(kPkeyDefault);
  path.mtu_selector = kExactly;
  path.mtu = id.device->path_mtu_code_to(id.source.address, id.destination.address);
  path.rate_selector = kExactly;
  path.rate = rate_code(id.device->speed_mbps());
  path.packet_life_time_selector = kExactly;
  path.packet_life_time = kPacketLifetime;
  return path;
}

}  // namespace uroce::control::cm_user
