// Frames that aren't RoCE, as anybody on the link may send them: ARP, neighbour discovery, echo.
// Answers must come from one of our addresses.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "control/ip/device.h"
#include "tests/unit/control/rig.h"

namespace uroce::control {
namespace {

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "host_frame_fuzzer: %s\n", what);
    std::abort();
  }
}

// Corrects the ICMPv6 checksum, which random mutations never do.
void mend(FrameBytes* bytes) {
  const auto frame = parse_ethernet(*bytes);
  if (!frame || frame->type != kEtherTypeIpv6) {
    return;
  }
  const auto packet = parse_ipv6(frame->payload);
  if (!packet || packet->payload.size() < 4) {
    return;
  }
  const auto offset = static_cast<std::size_t>(packet->payload.data() - bytes->data()) + 2;
  (*bytes)[offset] = (*bytes)[offset + 1] = std::byte{0};
  const std::uint16_t sum = checksum_finish(
      checksum_add(packet->payload,
                   pseudo_header_sum(packet->source, packet->destination, packet->payload.size())));
  (*bytes)[offset] = static_cast<std::byte>(sum >> 8U);
  (*bytes)[offset + 1] = static_cast<std::byte>(sum);
}

void receive(std::span<const std::byte> frame) {
  SilentPort port;
  Device device(0, port, {*parse_prefix("10.0.0.1/24"), *parse_prefix("fd00::1/64")}, {},
                [](std::span<const std::byte> bytes) {
                  const auto sent = parse_ethernet(bytes);
                  require(sent.has_value(), "what is sent isn't a frame");
                  require(sent->source == SilentPort::kMac, "it is sent in another's name");
                });
  EtherAddress mac;
  (void)device.resolve(*parse_ip("10.0.0.2"), 1, &mac);
  (void)device.resolve(*parse_ip("fd00::2"), 1, &mac);
  (void)device.on_frame(frame, 2);
  for (const Neighbour& moved : device.moves().due(2)) {
    require(!device.gids().owns(moved.address.gid), "our address was claimed");
  }
}

}  // namespace
}  // namespace uroce::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::control;
  FrameBytes bytes(reinterpret_cast<const std::byte*>(data),
                   reinterpret_cast<const std::byte*>(data) + size);
  receive(bytes);
  mend(&bytes);
  receive(bytes);
  return 0;
}
