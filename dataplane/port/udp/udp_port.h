#pragma once

// --port udp: RoCEv2 through plain UDP sockets of the machine's own addresses. Needs no privileges,
// EAL or huge pages. The kernel resolves addresses, routes, answers ARP and writes the headers;
// workers see frames as with any other port.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/host_interface.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/port.h"

namespace uroce {

class UdpPort final : public Port {
 public:
  static constexpr std::uint32_t kFramesPerQueue = 5'120;

  // `spec`: see udp_spec.h. Uses options.addresses. The MTU is options.mtu, or that of the
  // addresses' interface if that is less. Errors are sentences for the user.
  static Result<std::unique_ptr<Port>> open(const std::string& spec, const PortOptions& options);
  ~UdpPort() override;

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override;
  void release(Frame** frames, std::uint32_t count) override;
  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] PortCounters counters() const override;
  [[nodiscard]] int wait_descriptor(std::uint16_t queue) const override;
  bool arm_wait(std::uint16_t queue) override;
  void disarm_wait(std::uint16_t queue) override;
  [[nodiscard]] std::uint32_t mtu_to(const Gid& source, const Gid& peer) const override;
  Status open_address(const Gid& address) override;
  void close_address(const Gid& address) override;
  void take_over(std::uint16_t queue) override;

 private:
  struct Queue;
  // Changes of addresses that control has prepared for the queues.
  struct Change {
    Gid address;
    std::uint32_t scope = 0;
    std::vector<UniqueFd> sockets;  // one per queue; none: the address is removed
  };
  UdpPort(std::string spec, std::string interface, const PortOptions& options,
          std::uint32_t segments);
  [[nodiscard]] std::optional<HostInterface> interface_of(const Gid& address) const;
  struct Link {
    std::string trouble;  // empty: it can be used
    std::uint32_t speed_mbps = 0;
  };
  [[nodiscard]] Link link() const;

  std::string spec_;
  std::string interface_;  // the interface of the addresses; empty: perhaps several
  const EtherAddress mac_;
  std::vector<Gid> addresses_;
  std::uint32_t mtu_;
  FramePool pool_;
  std::vector<std::unique_ptr<Queue>> queues_;
  Change change_;
};

}  // namespace uroce
