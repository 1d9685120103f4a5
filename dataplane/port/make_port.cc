#include "dataplane/port/make_port.h"

#include <net/if.h>

#include <cctype>
#include <cerrno>

#include "dataplane/port/ethdev/eal.h"
#include "dataplane/port/ethdev/ethdev_port.h"
#include "dataplane/port/loopback_port.h"
#include "dataplane/port/shm/shm_port.h"
#include "dataplane/port/shm/shm_spec.h"
#include "dataplane/port/udp/udp_port.h"
#include "dataplane/port/udp/udp_spec.h"

namespace uroce {

bool needs_eal(std::string_view spec) {
  return spec != "loopback" && !is_udp_spec(spec) && !is_shm_spec(spec);
}

// [DDDD:]BB:DD.F
bool is_pci_address(std::string_view spec) {
  if (spec.size() == 12 && spec[4] == ':') {
    const std::string_view domain = spec.substr(0, 4);
    for (const char digit : domain) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
        return false;
      }
    }
    spec.remove_prefix(5);
  }
  constexpr std::string_view kPattern = "xx:xx.o";
  if (spec.size() != kPattern.size()) {
    return false;
  }
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const auto c = static_cast<unsigned char>(spec[i]);
    const bool fits = kPattern[i] == 'x'   ? std::isxdigit(c) != 0
                      : kPattern[i] == 'o' ? c >= '0' && c <= '7'
                                           : spec[i] == kPattern[i];
    if (!fits) {
      return false;
    }
  }
  return true;
}

Status check_port_spec(const std::string& spec) {
  if (is_udp_spec(spec)) {
    const auto parsed = parse_udp_spec(spec);
    return parsed ? ok() : Status(parsed.error());
  }
  if (is_shm_spec(spec)) {
    const auto parsed = parse_shm_spec(spec);
    return parsed ? ok() : Status(parsed.error());
  }
  if (spec != "loopback" && !is_pci_address(spec) && !spec.starts_with("net_") &&
      !spec.starts_with("virtio_user")) {
    return Error{
        EINVAL, "port " + spec +
                    ": neither loopback, nor udp, nor shm, nor a PCI address such as 0000:01:00.0, "
                    "nor a vdev string such as net_af_packet0,iface=eth0"};
  }
  return ok();
}

namespace {

// Those drivers use an interface of the kernel, which the vdev string must name.
Status check_interface(const std::string& spec) {
  if (!spec.starts_with("net_af_packet") && !spec.starts_with("net_af_xdp")) {
    return ok();
  }
  constexpr std::string_view kKey = ",iface=";
  const std::size_t key = spec.find(kKey);
  const std::size_t start = key + kKey.size();
  const std::string interface =
      key == std::string::npos ? "" : spec.substr(start, spec.find(',', start) - start);
  if (interface.empty()) {
    return Error{EINVAL, "port " + spec + ": name the interface: " +
                             spec.substr(0, spec.find(',')) + ",iface=eth0"};
  }
  if (::if_nametoindex(interface.c_str()) == 0) {
    return Error{ENODEV, "port " + spec + ": there is no network interface " + interface +
                             " here; `ip link` lists those there are"};
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Port>> make_port(const std::string& spec, const PortOptions& options) {
  if (Status named = check_port_spec(spec); !named) {
    return named.error();
  }
  if (options.mtu < kPortMtuMin || options.mtu > kPortMtuMax) {
    return Error{EINVAL, "port " + spec + ": MTU " + std::to_string(options.mtu) +
                             " isn't between " + std::to_string(kPortMtuMin) + " and " +
                             std::to_string(kPortMtuMax)};
  }
  if (spec == "loopback") {
    return std::unique_ptr<Port>(
        std::make_unique<LoopbackPort>(options.mtu, options.queues, options.number));
  }
  if (is_udp_spec(spec)) {
    return UdpPort::open(spec, options);
  }
  if (is_shm_spec(spec)) {
    return ShmPort::open(spec, options);
  }
  if (const auto there = check_interface(spec); !there) {
    return there.error();
  }
  if (!eal_is_running()) {
    return Error{EINVAL, "port " + spec + ": needs DPDK's EAL, which doesn't run"};
  }
  return EthdevPort::open(spec, options);
}

}  // namespace uroce
