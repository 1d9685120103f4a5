// Packets as anybody may send them: parse() must not read outside the frame, and a packet that it
// accepts must be rebuilt to one that parses equally.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "dataplane/wire/icrc.h"
#include "dataplane/wire/layout.h"
#include "dataplane/wire/packet.h"
#include "tests/wire/sample.h"

namespace uroce::test {
namespace {

using namespace layout;

constexpr std::size_t kLargestFrame = 65'535 + sizeof(Ipv6) + sizeof(Ethernet) + sizeof(Vlan);

void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "packet_fuzzer: %s\n", what);
    std::abort();
  }
}

void check_rebuilt(const Frame& parsed) {
  OwnedFrame again(kLargestFrame);
  rebuild(again, parsed);
  require(parse(again.frame) == Drop::kNone, "a rebuilt packet is dropped");
  require(difference(parsed.packet, again.frame.packet).empty(), "a rebuilt packet differs");
  require(again.frame.length <= parsed.length + sizeof(Vlan), "a rebuilt packet is longer");
}

// Corrects the checksums, which random mutations never do, so that the code behind them is reached.
void mend(Frame& frame) {
  std::size_t ip = sizeof(Ethernet);
  if (frame.length >= ip + sizeof(Vlan) &&
      view<Ethernet>(frame.data).type.load() == kEtherTypeVlan) {
    ip += sizeof(Vlan);
  }
  if (frame.length >= ip + sizeof(Ipv4)) {
    auto& ipv4 = view<Ipv4>(frame.data + ip);
    const bool is_ipv4 = ipv4.version_ihl.load() == 0x45;
    if (is_ipv4) {
      ipv4.checksum.store(0);
      std::uint32_t sum = 0;
      for (std::size_t i = 0; i < sizeof(Ipv4); i += sizeof(Be16)) {
        sum += view<Be16>(frame.data + ip + i).load();
      }
      sum = (sum & 0xFFFFU) + (sum >> 16U);
      ipv4.checksum.store(static_cast<std::uint16_t>(~(sum + (sum >> 16U))));
    }
  }
  if (parse_headers(frame) != Drop::kNone) {
    return;
  }
  const Packet& packet = frame.packet;
  const std::uint32_t padded = (packet.payload_length + 3U) & ~3U;
  const auto at = static_cast<std::size_t>(packet.payload + padded - frame.data);
  const auto first = static_cast<std::size_t>(packet.ip - frame.data);
  const std::uint32_t icrc = icrc_end(icrc_begin(packet.ip, packet.ip_version == 6, at - first));
  std::memcpy(frame.data + at, &icrc, sizeof(icrc));
  require(parse(frame) == Drop::kNone, "a mended packet is dropped");
}

}  // namespace
}  // namespace uroce::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce;
  using namespace uroce::test;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), std::min(size, kLargestFrame));
  OwnedFrame received(bytes);
  if (parse(received.frame) == Drop::kNone) {
    check_rebuilt(received.frame);
  }
  OwnedFrame mended(bytes);
  mend(mended.frame);
  if (parse(mended.frame) == Drop::kNone) {
    check_rebuilt(mended.frame);
  }
  return 0;
}
