#include "dataplane/port/ethdev/port_rights.h"

#include <array>

#include "dataplane/port/make_port.h"

namespace uroce {
namespace {

struct Named {
  int number;
  std::string_view name;
};

constexpr std::array<Named, 6> kNames = {{
    {CAP_NET_RAW, "CAP_NET_RAW"},
    {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
    {CAP_BPF, "CAP_BPF"},
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
    {CAP_SYS_RAWIO, "CAP_SYS_RAWIO"},
    {CAP_IPC_LOCK, "CAP_IPC_LOCK"},
}};

constexpr Capabilities kPacketSocket = capability_bit(CAP_NET_RAW);
constexpr Capabilities kTap = capability_bit(CAP_NET_ADMIN);
// Its BPF program is loaded and attached; libxdp finds it, and its map, by number, for which the
// kernel asks for CAP_SYS_ADMIN.
constexpr Capabilities kXdp = capability_bit(CAP_NET_RAW) | capability_bit(CAP_NET_ADMIN) |
                              capability_bit(CAP_BPF) | capability_bit(CAP_SYS_ADMIN);
// A card's driver maps memory for it and, without an IOMMU, looks up physical addresses.
constexpr Capabilities kCard =
    capability_bit(CAP_IPC_LOCK) | capability_bit(CAP_SYS_RAWIO) | capability_bit(CAP_SYS_ADMIN);

}  // namespace

Capabilities capabilities_to_open(std::string_view spec) {
  if (spec.starts_with("net_af_packet") || spec.starts_with("eth_af_packet")) {
    return kPacketSocket;
  }
  if (spec.starts_with("net_af_xdp")) {
    return kXdp;
  }
  if (spec.starts_with("net_tap")) {
    return kTap;
  }
  return is_pci_address(spec) ? kCard : 0;
}

std::string missing_rights(std::string_view spec) {
  const Capabilities missing = capabilities_to_open(spec) & ~effective_capabilities();
  std::string names;
  for (const Named& capability : kNames) {
    if ((missing & capability_bit(capability.number)) != 0) {
      names += (names.empty() ? "" : ", ") + std::string(capability.name);
    }
  }
  if (names.empty()) {
    return names;
  }
  return "; uroced lacks " + names +
         ", which its systemd unit or its container must give it (PRIVILEGES in man uroced), or "
         "root; a udp port takes no rights";
}

}  // namespace uroce
