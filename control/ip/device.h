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
#include "base/result.h"
#include "base/time.h"
#include "control/ip/arp.h"
#include "control/ip/gateways.h"
#include "control/ip/gid_table.h"
#include "control/ip/multicast_groups.h"
#include "control/ip/ndp.h"
#include "control/ip/neighbour_moves.h"
#include "control/ip/neighbours.h"
#include "control/ip/path_error.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/path_mtu.h"

namespace uroce::control {

struct Identity {
  std::uint32_t vendor_id = 0x7572;  // nobody's: programs must not take us for a known card
  // A ConnectX-2 has it: perftest turns on inline for it, carries path MTU 4096 (half of that with
  // a ConnectX-3), and asks nothing of libmlx5, which version 25.01 does of every newer one (and
  // fails where it isn't answered).
  std::uint32_t vendor_part_id = 26428;
  std::uint32_t hw_ver = 1;
};

class Device {
 public:
  using SendFrame = std::function<void(std::span<const std::byte>)>;

  // The port outlives the device. `send` hands a frame to the port.
  Device(std::uint32_t index, Port& port, std::vector<IpPrefix> addresses, const Identity& identity,
         SendFrame send);

  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const GidTable& gids() const { return gids_; }
  [[nodiscard]] bool loops_back() const { return loops_back_; }
  // The kernel finds stations and routes: every address may be reachable.
  [[nodiscard]] bool resolves_itself() const { return resolves_itself_; }
  [[nodiscard]] Port& port() const { return port_; }
  [[nodiscard]] const EtherAddress& mac() const { return mac_; }
  [[nodiscard]] std::uint32_t active_mtu_code() const;
  // The same, as far as the way from an address of ours to a peer carries it.
  [[nodiscard]] std::uint32_t path_mtu_code_to(const Gid& source, const Gid& peer) const;
  [[nodiscard]] std::uint32_t active_mtu_bytes() const { return mtu_bytes(active_mtu_code()); }
  // Of the link, in Mb/s; 10 Gb/s where the port can't tell.
  [[nodiscard]] std::uint32_t speed_mbps() const;
  // The kernel interface that carries one of the addresses; 0: none does.
  void set_netdev_index(std::uint32_t index) { netdev_index_ = index; }

  [[nodiscard]] abi::DeviceRecord record() const;
  void fill_port(abi::QueryPortReply* reply) const;
  // Zeroes where there is no entry.
  void fill_gid(std::uint32_t index, abi::QueryGidReply* reply) const;

  // The Ethernet address of a peer. kPending: on_frame or on_time will say that somebody must look
  // again. Errors name the address. `asker`: whose share of the questions it counts for
  // (neighbours.h).
  enum class [[nodiscard]] Resolution : std::uint8_t{kDone, kPending};
  Result<Resolution> resolve(const LinkAddress& address, Time now, EtherAddress* mac,
                             Neighbours::Asker asker = Neighbours::kDaemon);

  // A frame that isn't RoCE: answers it, learns from it. True: somebody who waits for an address
  // must look again.
  bool on_frame(std::span<const std::byte> frame, Time now);
  // Peers of paths made by resolve() that are elsewhere on the link now.
  [[nodiscard]] NeighbourMoves& moves() { return moves_; }
  // What such a frame says of the way to a peer. Nothing: it isn't about a packet of ours.
  [[nodiscard]] std::optional<PathError> path_error(std::span<const std::byte> frame) const;
  // Asks again, gives up. True: somebody who waits for an address must look again.
  bool on_time(Time now);
  [[nodiscard]] Time next_deadline() const {
    return std::min(neighbours_.next_deadline(), moves_.next_deadline());
  }

  // Looks at the port's link. What became of it since the last look; none: nothing.
  std::optional<bool> link_change();
  // At the last look.
  [[nodiscard]] bool link_up() const { return link_up_; }
  // The port has been attached anew. True: its Ethernet address is another one, and so is GID 0.
  bool follow_mac();
  // The link is up again, and whoever is on it may be somebody else: our addresses are announced,
  // and peers that paths lead to are asked for again.
  void ask_again(Time now);

  // Tells the link our addresses, so that caches of an earlier owner are corrected.
  void announce();

  // At run time; workers and programs must hear of it, and the kernel.
  Result<std::uint32_t> add_address(const IpPrefix& prefix);
  Status remove_address(const Gid& address) { return gids_.remove(address); }

  // Routers for what isn't in a subnet of ours.
  void set_gateways(Gateways gateways) { gateways_ = std::move(gateways); }
  [[nodiscard]] const Gateways& gateways() const { return gateways_; }
  // Whose Ethernet address packets for `address` go to in its VLAN: its own, or a router's.
  // Nothing: no way.
  [[nodiscard]] std::optional<LinkAddress> next_hop(const LinkAddress& address) const;

  // Membership in a multicast group, counted; the first and the last of a group are told to the
  // network (IGMP, MLD), and its queries are answered. EINVAL, ENOMEM.
  Status join_group(const Gid& group);
  void leave_group(const Gid& group);
  [[nodiscard]] const MulticastGroups& groups() const { return groups_; }

 private:
  void ask(const LinkAddress& address);
  void announce(const LinkAddress& address);
  void report_group(const Gid& group, bool joined, std::optional<std::uint16_t> vlan);
  bool on_arp(const EthernetFrame& frame, const Arp& arp, Time now);
  bool on_neighbour_message(const EthernetFrame& frame, const NeighbourMessage& message, Time now);
  bool hear(const LinkAddress& address, const EtherAddress& mac, bool for_us, Time now);

  std::uint32_t index_;
  std::string name_;
  Port& port_;
  EtherAddress mac_;
  bool loops_back_;
  bool resolves_itself_;
  bool has_link_;  // ARP, neighbour discovery and groups are ours to do
  std::uint32_t netdev_index_ = 0;
  Identity identity_;
  GidTable gids_;
  Gateways gateways_;
  MulticastGroups groups_;
  Neighbours neighbours_;
  NeighbourMoves moves_;
  SendFrame send_;
  bool link_up_;
};

// All of the daemon, by index. They never move.
using Devices = std::deque<Device>;

}  // namespace uroce::control
