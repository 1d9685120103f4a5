#include "dataplane/wire/ecn.h"

#include "dataplane/wire/layout.h"

namespace uroce {
namespace {

using namespace layout;

constexpr unsigned kClassShift = 20;  // of the traffic class in IPv6's first word

bool is_ipv4(const std::byte* ip) { return (std::to_integer<unsigned>(*ip) >> 4U) == 4; }

// The one's complement checksum after one of its 16-bit words has changed (RFC 1624, equation 3).
std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t from, std::uint16_t to) {
  std::uint32_t sum = static_cast<std::uint16_t>(~checksum);
  sum += static_cast<std::uint16_t>(~from);
  sum += to;
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  sum = (sum & 0xFFFFU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

Ecn read_ecn(const std::byte* ip) {
  return is_ipv4(ip) ? ecn_of(view<Ipv4>(ip).tos.load())
                     : ecn_of(static_cast<std::uint8_t>(view<Ipv6>(ip).version_class_flow.load() >>
                                                        kClassShift));
}

void write_ecn(std::byte* ip, Ecn ecn) {
  if (!is_ipv4(ip)) {
    auto& header = view<Ipv6>(ip);
    const std::uint32_t rest =
        header.version_class_flow.load() & ~(std::uint32_t{kEcnMask} << kClassShift);
    header.version_class_flow.store(rest | static_cast<std::uint32_t>(ecn) << kClassShift);
    return;
  }
  auto& header = view<Ipv4>(ip);
  const std::uint16_t before = view<Be16>(ip).load();  // version, header length, TOS
  header.tos.store(with_ecn(header.tos.load(), ecn));
  header.checksum.store(updated_checksum(header.checksum.load(), before, view<Be16>(ip).load()));
}

}  // namespace uroce
