#include "dataplane/port/make_port.h"

#include <cctype>
#include <cerrno>

#include "dataplane/port/eal.h"
#include "dataplane/port/ethdev_port.h"
#include "dataplane/port/loopback_port.h"

namespace uroce {

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

Result<std::unique_ptr<Port>> make_port(const std::string& spec, const PortOptions& options) {
  if (options.mtu < kPortMtuMin || options.mtu > kPortMtuMax) {
    return Error{EINVAL, "port " + spec + ": MTU " + std::to_string(options.mtu) +
                             " isn't between " + std::to_string(kPortMtuMin) + " and " +
                             std::to_string(kPortMtuMax)};
  }
  if (spec == "loopback") {
    return std::unique_ptr<Port>(std::make_unique<LoopbackPort>(options.mtu, options.queues));
  }
  if (!is_pci_address(spec) && spec.find("net_") != 0 && spec.find("virtio_user") != 0) {
    return Error{EINVAL, "port " + spec +
                             ": neither loopback, nor a PCI address such as 0000:01:00.0, nor a "
                             "vdev string such as net_af_packet0,iface=eth0"};
  }
  if (!eal_is_running()) {
    return Error{EINVAL, "port " + spec + ": needs DPDK's EAL, which doesn't run"};
  }
  return EthdevPort::open(spec, options);
}

}  // namespace uroce
