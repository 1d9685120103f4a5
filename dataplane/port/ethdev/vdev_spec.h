#pragma once

// What drivers need: the user's vdev strings, completed with their arguments, and buffers for the
// MTU, one queue per worker, and the drivers' known quirks (listed in port/README.md).

#include <cstdint>
#include <string>
#include <string_view>

namespace uroce {

// Of frame data in a buffer of af_xdp's, which is a page with the mbuf's own parts
// (ethdev_setup.cc).
inline constexpr std::uint32_t kXdpBufferMax = 3'456;

struct VdevSpec {
  std::string name;       // "net_memif0"
  std::string arguments;  // "role=server,bsize=4288"; the user's own come first and take precedence
  // The driver reports no larger frames than 1518 bytes, or none at all, and refuses an MTU: its
  // own arguments size it.
  bool mtu_by_arguments = false;
  std::uint32_t buffer_bytes = 0;      // minimum of frame data in an mbuf
  std::uint32_t buffer_bytes_max = 0;  // the driver's maximum; 0: any
  std::string listens_on{};            // the socket that the driver creates, or empty
  bool on_interface = false;           // a kernel interface, which may disappear and come back
  bool forgets_buffers = false;  // leaks buffers that the kernel holds when the device is closed
  // The driver registers the pool with the kernel as one area, as long as the sum of its buffers:
  // with gaps between them, as at the end of each page, the last ones would be outside.
  bool buffers_without_gaps = false;
  bool waits_for_peer = false;  // the probe returns only after a peer has connected
};

// A card, which takes no arguments.
[[nodiscard]] VdevSpec card_spec(std::string_view address, std::uint32_t mtu);

[[nodiscard]] VdevSpec complete_vdev(std::string_view spec, std::uint32_t mtu,
                                     std::uint16_t queues);

// The value of `key` among "key=value,key=value", or an empty string.
[[nodiscard]] std::string vdev_argument(std::string_view arguments, std::string_view key);

}  // namespace uroce
