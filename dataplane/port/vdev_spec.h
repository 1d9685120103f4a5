#pragma once

// Vdev strings as users give them, completed with what uroce needs of each driver: room for the
// MTU, one queue a worker, and the drivers' known quirks (port/README.md lists them).

#include <cstdint>
#include <string>
#include <string_view>

namespace uroce {

struct VdevSpec {
  std::string name;       // "net_memif0"
  std::string arguments;  // "role=server,bsize=4288"; the user's own come first and win
  // The driver reports no larger frames than 1518 bytes, or none at all, and refuses an MTU: its
  // own arguments size it.
  bool mtu_by_arguments = false;
  std::uint32_t buffer_bytes = 0;      // of frame data in an mbuf, at least
  std::uint32_t buffer_bytes_max = 0;  // what the driver can carry; 0: anything
  std::string listens_on{};            // the socket that the driver makes, or empty
  bool on_interface = false;           // of the kernel's, which may go and come again
  bool forgets_buffers = false;        // those that the kernel has when the device is closed
  // The driver shows the pool to the kernel as one area, and takes it for as long as its buffers
  // are: gaps between them, as at the end of each page, would leave the last ones outside.
  bool buffers_without_gaps = false;
  bool waits_for_peer = false;  // the probe returns only when somebody has connected
};

[[nodiscard]] VdevSpec complete_vdev(std::string_view spec, std::uint32_t mtu,
                                     std::uint16_t queues);

// The value of `key` among "key=value,key=value", or an empty string.
[[nodiscard]] std::string vdev_argument(std::string_view arguments, std::string_view key);

}  // namespace uroce
