// As /proc/net has the kernel's routes.

#include "apps/uroce/default_route.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>

namespace uroce {
namespace {

constexpr std::uint32_t kUp = 1, kGateway = 2, kReject = 0x200;  // RTF_*

struct Best {
  std::string interface;
  std::uint32_t metric = std::numeric_limits<std::uint32_t>::max();

  void take(const std::string& name, std::uint32_t other) {
    if (interface.empty() || other < metric) {
      interface = name;
      metric = other;
    }
  }
};

// Columns: interface, destination, gateway, flags, references, use, metric, mask.
std::string ipv4_default() {
  Best best;
  std::ifstream lines("/proc/net/route");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, destination, gateway, references, use, metric, mask;
    std::uint32_t flags = 0;
    words >> name >> destination >> gateway >> std::hex >> flags >> references >> use >> metric >>
        mask;
    if (words && destination == "00000000" && mask == "00000000" && (flags & kUp) != 0 &&
        (flags & kReject) == 0) {
      best.take(name, static_cast<std::uint32_t>(std::stoul(metric)));
    }
  }
  return best.interface;
}

// Columns: destination, its length, source, its length, next hop, metric, references, use, flags,
// interface; all numbers are hexadecimal.
std::string ipv6_default() {
  Best best;
  std::ifstream lines("/proc/net/ipv6_route");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string destination, length, source, source_length, next, name;
    std::uint32_t metric = 0, references = 0, use = 0, flags = 0;
    words >> destination >> length >> source >> source_length >> next >> std::hex >> metric >>
        references >> use >> flags >> name;
    if (words && length == "00" && (flags & kUp) != 0 && (flags & kGateway) != 0 &&
        (flags & kReject) == 0) {
      best.take(name, metric);
    }
  }
  return best.interface;
}

}  // namespace

std::string default_route_interface() {
  const std::string ipv4 = ipv4_default();
  return ipv4.empty() ? ipv6_default() : ipv4;
}

}  // namespace uroce
