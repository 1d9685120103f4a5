#include "dataplane/port/ethdev/vdev_spec.h"

#include <algorithm>
#include <bit>
#include <random>

#include "dataplane/port/port.h"

namespace uroce {
namespace {

// In front of the frame in a slot of an AF_PACKET ring (TPACKET2_HDRLEN and alignment).
constexpr std::uint32_t kPacketSlotHeader = 80;
constexpr std::uint32_t kPacketBlock = 65'536;
constexpr std::uint32_t kMemifLine = 64;
// virtio_user needs space for its own header besides the frame.
constexpr std::uint32_t kVirtioHeader = 12;
// AF_XDP requires chunks of 2048 bytes up to a page; besides the frame they contain the mbuf's own
// parts.
constexpr std::uint32_t kXdpBufferMin = 2'048;

void add_default(VdevSpec* spec, std::string_view key, const std::string& value) {
  if (!vdev_argument(spec->arguments, key).empty()) {
    return;
  }
  if (!spec->arguments.empty()) {
    spec->arguments.push_back(',');
  }
  spec->arguments.append(key).append("=").append(value);
}

// A locally administered unicast address.
EtherAddress random_mac() {
  std::random_device random;
  EtherAddress mac;
  for (std::uint8_t& byte : mac.bytes) {
    byte = static_cast<std::uint8_t>(random());
  }
  mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & 0xFCU) | 0x02U);
  return mac;
}

// The kernel requires slots that divide a block, and the driver a buffer for a whole slot.
void complete_af_packet(VdevSpec* spec, std::uint32_t frame, std::uint16_t queues) {
  const std::uint32_t slot = std::max(2'048U, std::bit_ceil(frame + kPacketSlotHeader));
  add_default(spec, "framesz", std::to_string(slot));
  add_default(spec, "blocksz", std::to_string(std::max(kPacketBlock, slot)));
  add_default(spec, "framecnt", "1024");
  add_default(spec, "qpairs", std::to_string(queues));
  add_default(spec, "qdisc_bypass", "1");
  const std::string given = vdev_argument(spec->arguments, "framesz");
  spec->buffer_bytes = static_cast<std::uint32_t>(std::strtoul(given.c_str(), nullptr, 10));
}

// Cards take buffers in units of up to a KiB, rounded down (ixgbe). Besides the frame they put
// their own header there (virtio: 12 bytes), or count a second VLAN tag. A frame that doesn't fit
// would arrive in two segments, which are copied together, or the driver refuses the buffers
// (virtio).
constexpr std::uint32_t kCardBufferUnit = 1'024;
constexpr std::uint32_t kCardHeader = 16;

}  // namespace

VdevSpec card_spec(std::string_view address, std::uint32_t mtu) {
  VdevSpec spec;
  spec.name = address;
  const std::uint32_t bytes = mtu + kEthernetOverhead + kCardHeader;
  spec.buffer_bytes = (bytes + kCardBufferUnit - 1) / kCardBufferUnit * kCardBufferUnit;
  return spec;
}

std::string vdev_argument(std::string_view arguments, std::string_view key) {
  while (!arguments.empty()) {
    const std::string_view item = arguments.substr(0, arguments.find(','));
    arguments.remove_prefix(std::min(arguments.size(), item.size() + 1));
    if (item.size() > key.size() && item.starts_with(key) && item[key.size()] == '=') {
      return std::string(item.substr(key.size() + 1));
    }
  }
  return {};
}

VdevSpec complete_vdev(std::string_view text, std::uint32_t mtu, std::uint16_t queues) {
  const std::size_t comma = std::min(text.find(','), text.size());
  VdevSpec spec;
  spec.name = text.substr(0, comma);
  spec.arguments = text.substr(std::min(text.size(), comma + 1));
  const std::uint32_t frame = mtu + kEthernetOverhead;
  spec.buffer_bytes = frame;
  if (spec.name.starts_with("net_memif") || spec.name.starts_with("eth_memif")) {
    spec.mtu_by_arguments = true;
    if (vdev_argument(spec.arguments, "role") == "server" &&
        vdev_argument(spec.arguments, "socket-abstract") == "no") {
      spec.listens_on = vdev_argument(spec.arguments, "socket");
    }
    add_default(&spec, "bsize", std::to_string((frame + kMemifLine - 1) / kMemifLine * kMemifLine));
  } else if (spec.name.starts_with("net_af_packet") || spec.name.starts_with("eth_af_packet")) {
    spec.mtu_by_arguments = true;
    spec.on_interface = true;
    complete_af_packet(&spec, frame, queues);
  } else if (spec.name.starts_with("net_af_xdp")) {
    spec.mtu_by_arguments = true;  // the kernel interface's own MTU
    spec.on_interface = true;
    spec.forgets_buffers = true;
    spec.buffers_without_gaps = true;
    add_default(&spec, "queue_count", std::to_string(queues));
    spec.buffer_bytes = std::max(frame, kXdpBufferMin);
    spec.buffer_bytes_max = kXdpBufferMax;
  } else if (spec.name.starts_with("net_virtio_user") || spec.name.starts_with("virtio_user")) {
    add_default(&spec, "queues", std::to_string(queues));
    add_default(&spec, "queue_size", "1024");
    spec.buffer_bytes = frame + kVirtioHeader;
    if (vdev_argument(spec.arguments, "server") == "1") {
      spec.listens_on = vdev_argument(spec.arguments, "path");
      spec.waits_for_peer = true;
      // The driver's own choice would be known too late.
      add_default(&spec, "mac", to_string(random_mac()));
    }
  } else if (spec.name.starts_with("net_vhost") || spec.name.starts_with("eth_vhost")) {
    add_default(&spec, "queues", std::to_string(queues));
    if (vdev_argument(spec.arguments, "client") != "1") {
      spec.listens_on = vdev_argument(spec.arguments, "iface");
    }
  } else if (spec.name.starts_with("net_tap")) {
    spec.on_interface = true;
  } else if (spec.name.starts_with("net_ring") || spec.name.starts_with("net_pcap")) {
    spec.mtu_by_arguments = true;  // any size; nothing to set
  }
  return spec;
}

}  // namespace uroce
