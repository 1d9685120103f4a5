#include "dataplane/port/make_port.h"

#include <cctype>
#include <cerrno>

#include "dataplane/port/eal.h"
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
  return Error{ENOTSUP, "port " + spec + ": only loopback is there yet"};
}

}  // namespace uroce
