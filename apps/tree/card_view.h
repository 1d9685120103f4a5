#pragma once

// A device as the kernel would describe it in sysfs and by netlink: derived from the daemon's
// status report, the only source.

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"

namespace uroce {

struct CardView {
  std::string name;         // uroce0
  std::uint32_t index = 0;  // among the daemon's devices
  // ibv_get_device_index; in Linux this is netlink's number of a device, too.
  std::uint32_t instance = 0;
  std::string firmware;    // the daemon's version
  std::uint64_t guid = 0;  // of the node and of the system image
  std::uint32_t vendor_id = 0, vendor_part_id = 0, hardware = 0;
  std::uint32_t state = 0, phys_state = 0;  // as ibv_port_attr has them
  std::uint32_t width = 0, speed = 0;       // as ibv_port_attr has them
  std::uint32_t gid_count = 0, pkey_count = 0;
  std::uint32_t interface_index = 0;  // of the kernel interface that carries its address; 0: none
  std::string interface;              // its name here; empty: none
  using Gid = std::array<std::uint8_t, 16>;
  std::map<std::uint32_t, Gid> gids;  // by index, without the empty places
  std::map<std::string, std::uint64_t> port_counters, hw_counters;

  static constexpr std::uint32_t kPort = 1;  // a card has one
  static constexpr std::uint32_t kDown = 1, kPolling = 2;
};

// EPROTO: the report isn't one.
Result<std::vector<CardView>> card_views(const nlohmann::ordered_json& report);

// "0000:0000:0000:0001", as sysfs writes a GUID.
std::string guid_text(std::uint64_t guid);

// The PCI address that a device has in the tree: in a domain that no machine has, and named like
// one, since programs take the parent of a device for a PCI function.
std::string pci_domain();  // "pci7572:00"
std::string pci_address(const CardView& card);

}  // namespace uroce
