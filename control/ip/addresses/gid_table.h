#pragma once

// The addresses of a port: its GID table. Index 0 is the link-local address that follows from the
// Ethernet address. Where the kernel owns the addresses and doesn't have that one, index 0 repeats
// the first address, because programs (UCX) reject a card without a GID there, whichever index they
// use later. The other addresses follow from index 1 and keep their indices; a removed one leaves
// its index empty for the next, and has it again if it returns before another took it. The kernel's
// link-local addresses take indices from the end: an interface may have them before its others,
// which programs expect at index 1 nevertheless. All are of type RoCE v2.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

struct IpPrefix {
  Gid address;
  std::uint32_t length = 128;  // bits of the 128; an IPv4 /24 is 120
  std::uint16_t vlan = 0;      // 0: untagged

  [[nodiscard]] bool contains(const Gid& gid) const;
};

// "10.0.0.1/24" or "2001:db8::1/64"; without a length: the full address length. "10.0.0.1/24@5" is
// in VLAN 5. EINVAL with a sentence.
Result<IpPrefix> parse_prefix(std::string_view text);
std::string to_string(const IpPrefix& prefix);
// The same for a network, whose address may be zero; it has no VLAN.
Result<IpPrefix> parse_network(std::string_view text);

// fe80:: and the modified EUI-64 (RFC 4291, appendix A). The GUID is its lower half.
Gid link_local_gid(const EtherAddress& mac);

[[nodiscard]] bool is_multicast(const Gid& gid);   // also an IPv4-mapped multicast address
[[nodiscard]] bool is_link_local(const Gid& gid);  // fe80::/10
EtherAddress multicast_mac(const Gid& gid);        // RFC 1112, 6.4; RFC 2464, 7

// Whether the port has a link-local address of its own at index 0; kNone: the kernel owns all.
enum class LinkLocal : std::uint8_t { kFromMac, kNone };

class GidTable {
 public:
  GidTable(const EtherAddress& mac, std::vector<IpPrefix> addresses,
           LinkLocal link_local = LinkLocal::kFromMac);

  // The GID that programs see at this index. nullptr: none.
  [[nodiscard]] const Gid* find(std::uint32_t index) const;
  // Returns its index. EEXIST, ENOSPC.
  Result<std::uint32_t> add(const IpPrefix& prefix);
  // ENOENT; EPERM for index 0.
  Status remove(const Gid& address);
  // Updates the link-local address, if there is one, from the Ethernet address.
  void follow_mac(const EtherAddress& mac);
  [[nodiscard]] bool owns(const Gid& gid) const { return entry_of(gid) != nullptr; }
  // Compares address and VLAN.
  [[nodiscard]] bool owns(const LinkAddress& address) const;
  // nullptr: the address isn't one of ours.
  [[nodiscard]] const IpPrefix* entry_of(const Gid& gid) const;
  // The VLAN of an address of ours; 0 for any other.
  [[nodiscard]] std::uint16_t vlan_of(const Gid& gid) const;
  // Whether it is in one of our subnets of its VLAN, so that no router is needed.
  [[nodiscard]] bool on_link(const LinkAddress& address) const;
  // By index, each address once; an empty entry has a zero address.
  [[nodiscard]] const std::vector<IpPrefix>& entries() const { return entries_; }
  [[nodiscard]] std::vector<LinkAddress> addresses() const;

 private:
  [[nodiscard]] std::optional<std::size_t> place_for(const Gid& address) const;
  [[nodiscard]] bool is_empty(std::size_t index) const;

  std::vector<IpPrefix> entries_;
  std::map<Gid, std::size_t> former_;  // where removed addresses were, while nothing else is there
};

}  // namespace uroce::control
