#pragma once

// A device as programs see it: one port of the engine with its name, addresses and neighbours.
// Answers ARP, neighbour discovery and echo requests as an IP host does, and resolves the Ethernet
// addresses of peers. Control thread only.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/command_records.h"
#include "abi/device_records.h"
#include "base/result.h"
#include "base/time.h"
#include "control/ip/addresses/address_claims.h"
#include "control/ip/addresses/gid_table.h"
#include "control/ip/frames/path_error.h"
#include "control/ip/gateways.h"
#include "control/ip/groups/group_answers.h"
#include "control/ip/groups/multicast_groups.h"
#include "control/ip/neighbours/arp.h"
#include "control/ip/neighbours/ndp.h"
#include "control/ip/neighbours/neighbour_moves.h"
#include "control/ip/neighbours/neighbours.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/path_mtu.h"

namespace uroce::control {

struct Identity {
  std::uint32_t vendor_id = 0x7572;  // unassigned: no program takes us for a known card
  // ConnectX-2: with this part id perftest uses inline sends and path MTU 4096 (2048 for a
  // ConnectX-3) and makes no libmlx5 calls, as version 25.01 does for every newer card, where it
  // fails without them.
  std::uint32_t vendor_part_id = 26428;
  std::uint32_t hw_ver = 1;
  std::uint32_t instance = 1;  // abi::DeviceRecord; Card chooses it
};

class Device {
 public:
  using SendFrame = std::function<void(std::span<const std::byte>)>;

  // The port outlives the device. `send` hands a frame to the port.
  Device(std::uint32_t index, Port& port, std::vector<IpPrefix> addresses, const Identity& identity,
         SendFrame send);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] std::uint32_t instance() const { return identity_.instance; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const GidTable& gids() const { return gids_; }
  [[nodiscard]] bool loops_back() const { return loops_back_; }
  // The kernel resolves addresses and routes: every address may be reachable.
  [[nodiscard]] bool resolves_itself() const { return resolves_itself_; }
  [[nodiscard]] Port& port() const { return port_; }
  [[nodiscard]] const EtherAddress& mac() const { return mac_; }
  [[nodiscard]] std::uint32_t active_mtu_code() const;
  // The same, limited by the known MTU of the path from our address to the peer.
  [[nodiscard]] std::uint32_t path_mtu_code_to(const Gid& source, const Gid& peer) const;
  [[nodiscard]] std::uint32_t active_mtu_bytes() const { return mtu_bytes(active_mtu_code()); }
  // Link speed in Mb/s; 10 Gb/s if the port doesn't know it.
  [[nodiscard]] std::uint32_t speed_mbps() const;
  // The kernel interface that carries one of the addresses; 0: none does.
  void set_netdev_index(std::uint32_t index) { netdev_index_ = index; }

  [[nodiscard]] abi::DeviceRecord record() const;
  void fill_port(abi::QueryPortReply* reply) const;
  // All zero if there is no entry.
  void fill_gid(std::uint32_t index, abi::QueryGidReply* reply) const;

  // Resolves the Ethernet address of a peer. kPending: call again once on_frame or on_time has
  // returned true. Errors name the address. `asker`: the user whose share of unanswered requests it
  // counts against (neighbours/neighbours.h).
  enum class [[nodiscard]] Resolution : std::uint8_t{kDone, kPending};
  Result<Resolution> resolve(const LinkAddress& address, Time now, EtherAddress* mac,
                             Neighbours::Asker asker = Neighbours::kDaemon);

  // Handles a frame that isn't RoCE: replies, and learns addresses. True: pending resolve() calls
  // must be repeated.
  bool on_frame(std::span<const std::byte> frame, Time now);
  // Peers of resolved paths whose Ethernet address has changed.
  [[nodiscard]] NeighbourMoves& moves() { return moves_; }
  // Other hosts that use addresses of ours.
  [[nodiscard]] AddressClaims& claims() { return claims_; }
  [[nodiscard]] const AddressClaims& claims() const { return claims_; }
  // The ICMP error in such a frame, if it concerns a packet of ours.
  [[nodiscard]] std::optional<PathError> path_error(std::span<const std::byte> frame) const;
  // Repeats requests and gives up those that are due. True: pending resolve() calls must be
  // repeated.
  bool on_time(Time now);
  [[nodiscard]] Time next_deadline() const {
    return std::min({neighbours_.next_deadline(), moves_.next_deadline(), claims_.next_deadline(),
                     group_answers_.next_deadline()});
  }

  // The state of the port's link, if that isn't the one that was noted last.
  [[nodiscard]] std::optional<bool> link_change() const;
  void note_link(bool up) { link_up_ = up; }
  // As it was noted last.
  [[nodiscard]] bool link_up() const { return link_up_; }
  // The port's Ethernet address, if that isn't the one that was noted last: it has been reattached.
  [[nodiscard]] std::optional<EtherAddress> mac_change() const;
  // GID 0 follows. To be noted when all that has the address has followed it. The GUID stays, as of
  // a kernel device: programs and librdmacm know it by that.
  void follow_mac(const EtherAddress& mac);
  void note_mac(const EtherAddress& mac) { mac_ = mac; }
  // The link is up again, perhaps with other hosts on it: announces our addresses and resolves the
  // peers of all paths again.
  void ask_again(Time now);

  // Announces our addresses on the link (gratuitous ARP, unsolicited NA), which updates neighbour
  // caches.
  void announce();

  // Adds an address at run time; the caller notifies workers, programs and the kernel.
  Result<std::uint32_t> add_address(const IpPrefix& prefix);
  Status remove_address(const Gid& address);

  // Routers for destinations outside our subnets.
  void set_gateways(Gateways gateways) { gateways_ = std::move(gateways); }
  [[nodiscard]] const Gateways& gateways() const { return gateways_; }
  // The next hop to `address` in its VLAN: the address itself, or a router. nullopt: no route.
  [[nodiscard]] std::optional<LinkAddress> next_hop(const LinkAddress& address) const;

  // Reference-counted membership in a multicast group: the first join and the last leave are
  // reported to the network (IGMP, MLD), and its queries are answered. EINVAL, ENOMEM.
  Status join_group(const Gid& group);
  // If there is no memory for the report, the network isn't told.
  void leave_group(const Gid& group) noexcept;
  [[nodiscard]] const MulticastGroups& groups() const { return groups_; }

 private:
  void ask(const LinkAddress& address);
  void announce(const LinkAddress& address);
  void plan_answers(const GroupQuery& query, std::uint16_t vlan, Time now);
  void report_group(const Gid& group, bool joined, std::optional<std::uint16_t> vlan);
  bool on_arp(const EthernetFrame& frame, const Arp& arp, Time now);
  bool on_neighbour_message(const EthernetFrame& frame, const NeighbourMessage& message, Time now);
  void hear_claim(const LinkAddress& address, const EtherAddress& mac, Time now);
  bool learn_neighbour(const LinkAddress& address, const EtherAddress& mac, bool for_us, Time now);

  std::uint32_t index_;
  std::string name_;
  Port& port_;
  EtherAddress mac_;
  std::uint64_t node_guid_;  // of the first Ethernet address
  bool loops_back_;
  bool resolves_itself_;
  bool has_link_;  // we do ARP, neighbour discovery and group reports
  std::uint32_t netdev_index_ = 0;
  Identity identity_;
  GidTable gids_;
  Gateways gateways_;
  MulticastGroups groups_;
  GroupAnswers group_answers_;
  Neighbours neighbours_;
  NeighbourMoves moves_;
  AddressClaims claims_;
  SendFrame send_;
  bool link_up_;
};

// The daemon's devices, by index. Elements never move.
using Devices = std::deque<Device>;

}  // namespace uroce::control
