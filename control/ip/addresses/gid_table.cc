#include "control/ip/addresses/gid_table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "control/ip/limits.h"

namespace uroce::control {

bool IpPrefix::contains(const Gid& gid) const {
  for (std::uint32_t bit = 0; bit < length; bit += 8) {
    const std::uint32_t bits = std::min(8U, length - bit);
    const auto mask = static_cast<std::uint8_t>(0xFF00U >> bits);
    if (((gid.bytes[bit / 8] ^ address.bytes[bit / 8]) & mask) != 0) {
      return false;
    }
  }
  return true;
}

Result<IpPrefix> parse_network(std::string_view text) {
  std::string quoted(1, '\'');
  quoted.append(text).append(1, '\'');
  const std::size_t slash = text.find('/');
  const std::optional<Gid> address = parse_ip(text.substr(0, slash));
  if (!address) {
    return Error{EINVAL, quoted + " isn't an IP address like 10.0.0.1/24 or 2001:db8::1/64"};
  }
  const std::uint32_t bits = address->is_ipv4() ? 32 : 128;
  std::uint32_t length = bits;
  if (slash != std::string_view::npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (failure != std::errc{} || end != digits.data() + digits.size() || length > bits) {
      return Error{EINVAL, quoted + ": the prefix length must be a number from 0 to " +
                               std::to_string(bits)};
    }
  }
  return IpPrefix{*address, length + 128 - bits};
}

std::string to_string(const IpPrefix& prefix) {
  const std::uint32_t mapped_bits = prefix.address.is_ipv4() ? 96 : 0;
  std::string text = to_string(prefix.address) + "/" + std::to_string(prefix.length - mapped_bits);
  if (prefix.vlan != 0) {
    text.append(1, '@').append(std::to_string(prefix.vlan));
  }
  return text;
}

Result<IpPrefix> parse_prefix(std::string_view text) {
  std::string quoted(1, '\'');
  quoted.append(text).append(1, '\'');
  const std::size_t at = text.find('@');
  auto prefix = parse_network(text.substr(0, at));
  if (!prefix) {
    return prefix;
  }
  if (prefix->address.is_zero() || prefix->address == parse_ip("0.0.0.0") ||
      prefix->address == parse_ip("255.255.255.255") || is_multicast(prefix->address)) {
    return Error{EINVAL, quoted + " can't be the address of a port"};
  }
  if (at != std::string_view::npos) {
    const std::string_view digits = text.substr(at + 1);
    const auto [end, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), prefix->vlan);
    if (failure != std::errc{} || end != digits.data() + digits.size() || prefix->vlan == 0 ||
        prefix->vlan > kVlanIdMax) {
      return Error{EINVAL, quoted + ": what follows @ is the number of a VLAN, from 1 to " +
                               std::to_string(kVlanIdMax)};
    }
  }
  return prefix;
}

Gid link_local_gid(const EtherAddress& mac) {
  const auto& m = mac.bytes;
  const auto first = static_cast<std::uint8_t>(m[0] ^ 2U);
  return Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, first, m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]}};
}

bool is_multicast(const Gid& gid) {
  return gid.bytes[0] == 0xFF || (gid.is_ipv4() && (ipv4_of(gid)[0] & 0xF0U) == 0xE0U);
}

bool is_link_local(const Gid& gid) {
  return gid.bytes[0] == 0xFE && (gid.bytes[1] & 0xC0U) == 0x80U;
}

EtherAddress multicast_mac(const Gid& gid) {
  if (gid.is_ipv4()) {
    const auto ipv4 = ipv4_of(gid);
    return {{0x01, 0x00, 0x5E, static_cast<std::uint8_t>(ipv4[1] & 0x7FU), ipv4[2], ipv4[3]}};
  }
  const auto& g = gid.bytes;
  return {{0x33, 0x33, g[12], g[13], g[14], g[15]}};
}

GidTable::GidTable(const EtherAddress& mac, std::vector<IpPrefix> addresses, LinkLocal link_local) {
  if (link_local == LinkLocal::kFromMac) {
    entries_.push_back({link_local_gid(mac), 64});
    entries_.insert(entries_.end(), addresses.begin(), addresses.end());
    return;
  }
  entries_.emplace_back();
  for (const IpPrefix& prefix : addresses) {
    (void)add(prefix);
  }
}

const Gid* GidTable::find(std::uint32_t index) const {
  const auto has_address = [](const IpPrefix& entry) { return !entry.address.is_zero(); };
  if (index == 0) {  // without a link-local address: the first address
    const auto first = std::find_if(entries_.begin(), entries_.end(), has_address);
    return first == entries_.end() ? nullptr : &first->address;
  }
  return index < entries_.size() && has_address(entries_[index]) ? &entries_[index].address
                                                                 : nullptr;
}

Result<std::uint32_t> GidTable::add(const IpPrefix& prefix) {
  if (owns(prefix.address)) {
    return Error{EEXIST, "the port has the address " + to_string(prefix.address) + " already"};
  }
  const std::optional<std::size_t> place = place_for(prefix.address);
  if (!place) {
    return Error{ENOSPC,
                 "a port has at most " + std::to_string(kGidsMax - 1) + " addresses (kGidsMax)"};
  }
  entries_.resize(std::max(entries_.size(), *place + 1));
  entries_[*place] = prefix;
  std::erase_if(former_, [&](const auto& entry) { return entry.second == *place; });
  return static_cast<std::uint32_t>(*place);
}

bool GidTable::is_empty(std::size_t index) const {
  return index >= entries_.size() || entries_[index].address.is_zero();
}

// nullopt: all places are taken.
std::optional<std::size_t> GidTable::place_for(const Gid& address) const {
  if (const auto former = former_.find(address); former != former_.end()) {
    return former->second;
  }
  const bool is_kernels = entries_.front().address.is_zero();
  // The first entry is reserved for the link-local address, even if there is none.
  for (std::size_t index = 1; index < kGidsMax; ++index) {
    const std::size_t place = is_kernels && is_link_local(address) ? kGidsMax - index : index;
    if (is_empty(place)) {
      return place;
    }
  }
  return std::nullopt;
}

Status GidTable::remove(const Gid& address) {
  const auto place = std::find_if(entries_.begin(), entries_.end(), [&](const IpPrefix& entry) {
    return entry.address == address && !address.is_zero();
  });
  if (place == entries_.end()) {
    return Error{ENOENT, "the port doesn't have the address " + to_string(address)};
  }
  if (place == entries_.begin()) {
    return Error{EPERM, to_string(address) + " follows from the Ethernet address and stays"};
  }
  former_[address] = static_cast<std::size_t>(place - entries_.begin());
  *place = IpPrefix{};
  return ok();
}

void GidTable::follow_mac(const EtherAddress& mac) {
  if (!entries_.front().address.is_zero()) {
    entries_.front().address = link_local_gid(mac);
  }
}

const IpPrefix* GidTable::entry_of(const Gid& gid) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const IpPrefix& entry) {
    return entry.address == gid && !gid.is_zero();
  });
  return found == entries_.end() ? nullptr : &*found;
}

bool GidTable::owns(const LinkAddress& address) const {
  const IpPrefix* entry = entry_of(address.gid);
  return entry != nullptr && entry->vlan == address.vlan;
}

std::uint16_t GidTable::vlan_of(const Gid& gid) const {
  const IpPrefix* entry = entry_of(gid);
  return entry != nullptr ? entry->vlan : std::uint16_t{0};
}

bool GidTable::on_link(const LinkAddress& address) const {
  const Gid& gid = address.gid;
  return std::any_of(entries_.begin(), entries_.end(), [&](const IpPrefix& entry) {
    return entry.vlan == address.vlan && entry.address.is_ipv4() == gid.is_ipv4() &&
           (entry.contains(gid) || is_link_local(gid));
  });
}

std::vector<LinkAddress> GidTable::addresses() const {
  std::vector<LinkAddress> all;
  all.reserve(entries_.size());
  for (const IpPrefix& entry : entries_) {
    if (!entry.address.is_zero()) {
      all.emplace_back(entry.address, entry.vlan);
    }
  }
  return all;
}

}  // namespace uroce::control
