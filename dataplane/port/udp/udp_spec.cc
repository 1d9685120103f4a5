#include "dataplane/port/udp/udp_spec.h"

#include <net/if.h>

#include <cerrno>
#include <charconv>

#include "dataplane/port/udp/udp_send.h"

namespace uroce {
namespace {

constexpr std::string_view kName = "udp";
constexpr std::string_view kInterface = "iface=";
constexpr std::string_view kSegments = "segments=";

bool set_segments(std::string_view digits, UdpSpec* parsed) {
  const char* end = digits.data() + digits.size();
  const auto [stopped, failure] = std::from_chars(digits.data(), end, parsed->segments);
  return failure == std::errc{} && stopped == end && parsed->segments >= 1 &&
         parsed->segments <= UdpSender::kSegmentsMax;
}

bool set(std::string_view setting, UdpSpec* parsed) {
  if (setting.starts_with(kInterface)) {
    parsed->interface = setting.substr(kInterface.size());
    return !parsed->interface.empty() && parsed->interface.size() < IFNAMSIZ;
  }
  return setting.starts_with(kSegments) && set_segments(setting.substr(kSegments.size()), parsed);
}

}  // namespace

bool is_udp_spec(std::string_view spec) {
  return spec == kName || spec.substr(0, kName.size() + 1) == "udp,";
}

Result<UdpSpec> parse_udp_spec(const std::string& spec) {
  UdpSpec parsed;
  std::string_view rest = std::string_view(spec).substr(kName.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the comma
    const std::string_view setting = rest.substr(0, rest.find(','));
    rest.remove_prefix(setting.size());
    if (!set(setting, &parsed)) {
      return Error{EINVAL, "port " + spec +
                               ": say udp, and behind it ,iface=NAME of an interface, "
                               ",segments=N with N from 1 to " +
                               std::to_string(UdpSender::kSegmentsMax) + ", or both"};
    }
  }
  return parsed;
}

}  // namespace uroce
