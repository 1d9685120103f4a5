#include "apps/tree/card_view.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/ipv4_mapped.h"

namespace uroce {
namespace {

using Json = nlohmann::ordered_json;

// The address of "10.0.0.1/24@5" or "fe80::1/64". IPv4 addresses are mapped ones, as in a GID.
CardView::Gid gid_of(const std::string& prefix) {
  const std::string address = prefix.substr(0, prefix.find_first_of("/@"));
  CardView::Gid gid{};
  if (::inet_pton(AF_INET6, address.c_str(), gid.data()) != 1) {
    in_addr ipv4{};
    (void)::inet_pton(AF_INET, address.c_str(), &ipv4);
    gid = ipv4_mapped(ipv4);
  }
  return gid;
}

CardView view_of(const Json& device, const std::string& version) {
  constexpr const char* kOfPort[] = {"rx_frames", "rx_bytes",  "tx_frames",
                                     "tx_bytes",  "rx_missed", "tx_failed"};
  const Json& identity = device.at("identity");
  CardView card;
  card.name = device.at("name").get<std::string>();
  card.firmware = version;
  const auto number = [&](const char* key, auto* value) { identity.at(key).get_to(*value); };
  number("index", &card.index);
  number("instance", &card.instance);
  number("node_guid", &card.guid);
  number("vendor_id", &card.vendor_id);
  number("vendor_part_id", &card.vendor_part_id);
  number("hw_ver", &card.hardware);
  number("state", &card.state);
  number("phys_state", &card.phys_state);
  number("active_width", &card.width);
  number("active_speed", &card.speed);
  number("gid_count", &card.gid_count);
  number("pkey_count", &card.pkey_count);
  number("interface_index", &card.interface_index);
  for (const Json& address : device.at("addresses")) {
    card.gids[address.at("index").get<std::uint32_t>()] =
        gid_of(address.at("address").get<std::string>());
  }
  for (const char* name : kOfPort) {
    card.port_counters[name] = device.at(name).get<std::uint64_t>();
  }
  for (const auto& [name, value] : device.at("hw_counters").items()) {
    card.hw_counters[name] = value.get<std::uint64_t>();
  }
  return card;
}

// A name that is a path's part, and nothing else.
bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

}  // namespace

Result<std::vector<CardView>> card_views(const Json& report) {
  std::vector<CardView> cards;
  try {
    const auto version = report.at("version").get<std::string>();
    for (const Json& device : report.at("devices")) {
      cards.push_back(view_of(device, version));
    }
  } catch (const std::exception& error) {
    return Error{EPROTO, std::string("can't parse the daemon's report: ") + error.what()};
  }
  for (CardView& card : cards) {
    if (!is_plain(card.name)) {
      return Error{EPROTO, "the daemon's report has a device with an invalid name"};
    }
    char interface[IF_NAMESIZE] = {};
    if (card.interface_index != 0 && ::if_indextoname(card.interface_index, interface) != nullptr) {
      card.interface = interface;
    }
  }
  return cards;
}

std::string guid_text(std::uint64_t guid) {
  char text[24];
  std::snprintf(
      text, sizeof(text), "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48U & 0xFFFFU),
      static_cast<unsigned>(guid >> 32U & 0xFFFFU), static_cast<unsigned>(guid >> 16U & 0xFFFFU),
      static_cast<unsigned>(guid & 0xFFFFU));
  return text;
}

std::string pci_domain() { return "pci7572:00"; }

std::string pci_address(const CardView& card) {
  char text[24];
  std::snprintf(text, sizeof(text), "7572:00:%02x.0", card.index & 0x1FU);
  return text;
}

}  // namespace uroce
