// Addresses to text and back.

#include "dataplane/wire/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>

namespace uroce {
namespace {

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

}  // namespace

EtherAddress stand_in_mac(const Gid& gid) {
  if (gid.is_ipv4()) {
    const auto ipv4 = ipv4_of(gid);
    return {{0x06, 0x00, ipv4[0], ipv4[1], ipv4[2], ipv4[3]}};
  }
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
  for (const std::uint8_t byte : gid.bytes) {
    hash = (hash ^ byte) * 0x100'0000'01B3;
  }
  hash ^= hash >> 40U;
  EtherAddress mac{{0x0A}};
  for (std::size_t i = 1; i < mac.bytes.size(); ++i) {
    mac.bytes[i] = static_cast<std::uint8_t>(hash >> (8 * i));
  }
  return mac;
}

Gid host_of(const Gid& address) {
  Gid host = address;
  if (!address.is_ipv4()) {
    constexpr std::size_t kNetwork = 8;
    std::fill(host.bytes.begin() + kNetwork, host.bytes.end(), std::uint8_t{0});
  }
  return host;
}

std::string to_string(const EtherAddress& address) {
  std::array<char, 18> text{};
  const auto& b = address.bytes;
  std::snprintf(text.data(), text.size(), "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3],
                b[4], b[5]);
  return text.data();
}

std::string to_string(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, ipv4_of(gid).data(), text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

std::optional<Gid> parse_ip(std::string_view text) {
  const std::string terminated(text);
  in_addr ipv4{};
  if (inet_pton(AF_INET, terminated.c_str(), &ipv4) == 1) {
    return mapped_gid(ipv4);
  }
  Gid gid;
  if (inet_pton(AF_INET6, terminated.c_str(), gid.bytes.data()) == 1) {
    return gid;
  }
  return std::nullopt;
}

std::optional<EtherAddress> parse_mac(std::string_view text) {
  constexpr std::size_t kTextLength = 17;  // "aa:bb:cc:dd:ee:ff"
  if (text.size() != kTextLength) {
    return std::nullopt;
  }
  EtherAddress address;
  for (std::size_t i = 0; i < address.bytes.size(); ++i) {
    const int high = hex_digit(text[3 * i]);
    const int low = hex_digit(text[3 * i + 1]);
    const bool separated = i + 1 == address.bytes.size() || text[3 * i + 2] == ':';
    if (high < 0 || low < 0 || !separated) {
      return std::nullopt;
    }
    address.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return address;
}

}  // namespace uroce
