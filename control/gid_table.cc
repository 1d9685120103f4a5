#include "control/gid_table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

#include "control/card_limits.h"

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
  return to_string(prefix.address) + "/" + std::to_string(prefix.length - mapped_bits);
}

Result<IpPrefix> parse_prefix(std::string_view text) {
  auto prefix = parse_network(text);
  if (prefix && (prefix->address.is_zero() || is_multicast(prefix->address))) {
    std::string quoted(1, '\'');
    quoted.append(text).append(1, '\'');
    return Error{EINVAL, quoted + " can't be the address of a port"};
  }
  return prefix;
}

Gid link_local_gid(const EtherAddress& mac) {
  const auto& m = mac.bytes;
  const auto first = static_cast<std::uint8_t>(m[0] ^ 2U);
  return Gid{{0xFE, 0x80, 0, 0, 0, 0, 0, 0, first, m[1], m[2], 0xFF, 0xFE, m[3], m[4], m[5]}};
}

bool is_multicast(const Gid& gid) {
  return gid.bytes[0] == 0xFF || (gid.is_ipv4() && (gid.bytes[12] & 0xF0U) == 0xE0U);
}

bool is_link_local(const Gid& gid) {
  return gid.bytes[0] == 0xFE && (gid.bytes[1] & 0xC0U) == 0x80U;
}

EtherAddress multicast_mac(const Gid& gid) {
  const auto& g = gid.bytes;
  if (gid.is_ipv4()) {
    return {{0x01, 0x00, 0x5E, static_cast<std::uint8_t>(g[13] & 0x7FU), g[14], g[15]}};
  }
  return {{0x33, 0x33, g[12], g[13], g[14], g[15]}};
}

GidTable::GidTable(const EtherAddress& mac, std::vector<IpPrefix> addresses) {
  entries_.push_back({link_local_gid(mac), 64});
  entries_.insert(entries_.end(), addresses.begin(), addresses.end());
}

Result<std::uint32_t> GidTable::add(const IpPrefix& prefix) {
  if (owns(prefix.address)) {
    return Error{EEXIST, "the port has the address " + to_string(prefix.address) + " already"};
  }
  auto place = std::find_if(entries_.begin(), entries_.end(),
                            [](const IpPrefix& entry) { return entry.address.is_zero(); });
  if (place == entries_.end()) {
    if (entries_.size() >= kGidsMax) {
      return Error{ENOSPC,
                   "a port has at most " + std::to_string(kGidsMax - 1) + " addresses (kGidsMax)"};
    }
    place = entries_.insert(entries_.end(), prefix);
  }
  *place = prefix;
  return static_cast<std::uint32_t>(place - entries_.begin());
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
  *place = IpPrefix{};
  return ok();
}

bool GidTable::owns(const Gid& gid) const {
  return !gid.is_zero() && std::any_of(entries_.begin(), entries_.end(),
                                       [&](const IpPrefix& entry) { return entry.address == gid; });
}

bool GidTable::on_link(const Gid& gid) const {
  return is_link_local(gid) ||
         std::any_of(entries_.begin(), entries_.end(), [&](const IpPrefix& entry) {
           return entry.address.is_ipv4() == gid.is_ipv4() && entry.contains(gid);
         });
}

std::vector<Gid> GidTable::addresses() const {
  std::vector<Gid> all;
  all.reserve(entries_.size());
  for (const IpPrefix& entry : entries_) {
    if (!entry.address.is_zero()) {
      all.push_back(entry.address);
    }
  }
  return all;
}

}  // namespace uroce::control
