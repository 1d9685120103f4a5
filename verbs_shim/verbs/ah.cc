// Address handles, and the look-ups for answering a received datagram: its source address, and that
// address's Ethernet address.

#include <netinet/in.h>

#include <bit>
#include <cstring>

#include "base/ipv4_mapped.h"
#include "verbs_shim/objects/handle.h"
#include "verbs_shim/objects/objects.h"
#include "verbs_shim/rings/sends_to_address.h"
#include "verbs_shim/socket/log.h"
#include "verbs_shim/verbs/address.h"

namespace uroce::shim {

abi::AddressRecord to_record(const ibv_ah_attr& from) {
  abi::AddressRecord to{};
  std::memcpy(to.dgid, from.grh.dgid.raw, sizeof(to.dgid));
  to.flow_label = from.grh.flow_label;
  to.sgid_index = from.grh.sgid_index;
  to.hop_limit = from.grh.hop_limit;
  to.traffic_class = from.grh.traffic_class;
  to.is_global = from.is_global;
  to.sl = from.sl;
  to.port = from.port_num;
  to.static_rate = from.static_rate;
  return to;
}

ibv_ah_attr to_verbs(const abi::AddressRecord& from) {
  ibv_ah_attr to{};
  std::memcpy(to.grh.dgid.raw, from.dgid, sizeof(from.dgid));
  to.grh.flow_label = from.flow_label;
  to.grh.sgid_index = from.sgid_index;
  to.grh.hop_limit = from.hop_limit;
  to.grh.traffic_class = from.traffic_class;
  to.is_global = from.is_global;
  to.sl = from.sl;
  to.port_num = from.port;
  to.static_rate = from.static_rate;
  return to;
}

namespace {

constexpr std::uint32_t kFlowLabelMask = 0xFFFFF;
constexpr std::uint32_t kTrafficClassShift = 20;
constexpr std::uint8_t kHopLimit = 255;
constexpr std::uint8_t kIpv4Version = 4;

// A received datagram is preceded by 40 bytes: an IPv6 header, or an IPv4 header in the last 20 of
// them (annex A17.4.5.2). This reads either.
struct Route {
  ibv_gid source, destination;
  std::uint32_t flow_label;
  std::uint8_t traffic_class;
};

ibv_gid read_ipv4(const std::uint8_t* bytes) {
  in_addr address;
  std::memcpy(&address, bytes, sizeof(address));
  return std::bit_cast<ibv_gid>(ipv4_mapped(address));
}

Route read_route(const ibv_grh& grh) {
  constexpr std::size_t kIpv4Offset = 20;
  std::uint8_t bytes[sizeof(ibv_grh)];
  std::memcpy(bytes, &grh, sizeof(bytes));
  const std::uint32_t first = ntohl(grh.version_tclass_flow);
  Route route{};
  if (first >> 28U == 6) {
    route.source = grh.sgid;
    route.destination = grh.dgid;
    route.flow_label = first & kFlowLabelMask;
    route.traffic_class = static_cast<std::uint8_t>(first >> kTrafficClassShift);
  } else if (bytes[kIpv4Offset] >> 4U == kIpv4Version) {
    route.source = read_ipv4(&bytes[kIpv4Offset + 12]);
    route.destination = read_ipv4(&bytes[kIpv4Offset + 16]);
    route.traffic_class = bytes[kIpv4Offset + 1];
  }
  return route;
}

// The index of our address `gid`; -1 with errno: ENOENT if none is ours.
int find_gid(ibv_context* context, std::uint8_t port, const ibv_gid& gid) {
  ibv_gid candidate{};
  for (int index = 0; ibv_query_gid(context, port, index, &candidate) == 0; ++index) {
    if (std::memcmp(candidate.raw, gid.raw, sizeof(gid.raw)) == 0) {
      return index;
    }
  }
  if (errno == EINVAL) {  // beyond the end of the table
    errno = ENOENT;
  }
  return -1;
}

}  // namespace
}  // namespace uroce::shim

using namespace uroce::shim;
using abi::Command;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (attr->is_global == 0) {
    refuse("ibv_create_ah", EINVAL, "on Ethernet an address handle needs a GRH");
    return nullptr;
  }
  auto ah = make<Ah>();
  if (ah == nullptr) {
    return nullptr;
  }
  abi::CreateAhRequest request{};
  request.pd = pd->handle;
  request.address = to_record(*attr);
  abi::HandleReply reply{};
  const int error =
      of(pd->context)->client.call("ibv_create_ah", Command::kCreateAh, request, reply);
  if (error != 0) {
    return fail(error);
  }
  ah->base.context = pd->context;
  ah->base.pd = pd;
  ah->base.handle = reply.handle;
  return &ah.release()->base;
}

int ibv_destroy_ah(ibv_ah* base) {
  await_sends_to(*base);
  const int error =
      destroy_handle("ibv_destroy_ah", base->context, Command::kDestroyAh, base->handle);
  if (error == 0) {
    delete reinterpret_cast<Ah*>(base);
  }
  return error;
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attr) {
  // The service level stays 0: in its place a completion has the kind of header (abi/completion.h),
  // which would be sent as a priority.
  *attr = {};
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) {
    return 0;
  }
  const Route route = read_route(*grh);
  const int index = find_gid(context, port, route.destination);
  if (index < 0) {
    return -1;
  }
  attr->is_global = 1;
  attr->grh.dgid = route.source;
  attr->grh.sgid_index = static_cast<std::uint8_t>(index);
  attr->grh.flow_label = route.flow_label;
  attr->grh.traffic_class = route.traffic_class;
  attr->grh.hop_limit = kHopLimit;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr{};
  return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) == 0 ? ibv_create_ah(pd, &attr)
                                                                     : nullptr;
}

int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                uint8_t mac[ETHERNET_LL_SIZE], uint16_t* vlan) {
  abi::ResolveGidRequest request{};
  request.address = to_record(*attr);
  abi::ResolveGidReply reply{};
  const int error =
      of(context)->client.call("ibv_resolve_eth_l2_from_gid", Command::kResolveGid, request, reply);
  if (error != 0) {
    errno = error;
    return -1;
  }
  std::memcpy(mac, reply.mac, ETHERNET_LL_SIZE);
  if (vlan != nullptr) {
    *vlan = reply.vlan;
  }
  return 0;
}
}
