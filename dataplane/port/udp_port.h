#pragma once

// --port udp: RoCEv2 through plain UDP sockets of the machine's own addresses. Needs no right, no
// EAL and no huge page. The kernel resolves, routes, answers ARP and writes the headers; workers
// see frames as everywhere.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/port.h"

namespace uroce {

class UdpPort final : public Port {
 public:
  static constexpr std::uint32_t kFramesPerQueue = 4'096;

  // `spec`: see udp_spec.h. At options.addresses. Carries IP packets of options.mtu bytes, or what
  // the interface of the addresses carries if that is less. Errors are sentences for the user.
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

 private:
  struct Queue;
  UdpPort(std::string spec, const PortOptions& options, std::uint32_t segments);
  Status add_address(const Gid& address, std::uint32_t scope);

  std::string spec_;
  Gid address_;  // the first one, whose interface is looked at
  std::uint32_t mtu_;
  FramePool pool_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

}  // namespace uroce
