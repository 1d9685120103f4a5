#pragma once

// A port on any rte_ethdev. A Frame is in the private area of its mbuf, so converting one into the
// other copies nothing.
//
// virtio_user as a server blocks in its probe until a peer connects. Such a port is brought up by a
// separate thread; until then its link is down, and it neither receives nor sends.
//
// af_packet, af_xdp and tap are on a kernel interface, which is queried for the link state, since
// the drivers report a fixed one. When a removed interface is back, the device is recreated under
// this port (ethdev_interface.cc), since a driver's sockets are bound to the old interface.
//
// A driver may have fewer queues than there are workers. Workers without a receive queue then
// receive nothing themselves (other workers pass them their frames), and those that share a
// transmit queue take a lock.

#include <rte_mempool.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "dataplane/port/ethdev/vdev_spec.h"
#include "dataplane/port/host_interface.h"
#include "dataplane/port/make_port.h"
#include "dataplane/port/port.h"
#include "dataplane/port/queue_counters.h"

struct rte_mbuf;

namespace uroce {

class EthdevPort final : public Port {
 public:
  // `spec`: a PCI address or a vdev string. REQUIRES: the EAL runs.
  static Result<std::unique_ptr<Port>> open(const std::string& spec, const PortOptions& options);
  ~EthdevPort() override;

  std::uint32_t rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max, Time now) override;
  std::uint32_t tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                         Time now) override;
  std::uint32_t allocate(Frame** frames, std::uint32_t count) override;
  void release(Frame** frames, std::uint32_t count) override;
  [[nodiscard]] PortInfo info() const override;
  [[nodiscard]] PortCounters counters() const override;

  bool detach() override;
  Result<bool> attach() override;
  // Without its interface it needn't be polled: workers are woken when it is back.
  [[nodiscard]] bool needs_polling() const override { return interface_.empty() || up_.load(); }

  [[nodiscard]] int wait_descriptor(std::uint16_t queue) const override;
  bool arm_wait(std::uint16_t queue) override;
  void disarm_wait(std::uint16_t queue) override;
  [[nodiscard]] Duration signal_delay_max(std::uint16_t queue) const override;

 private:
  // One worker's state of the port.
  struct Queue {
    QueueCounters counters;
    // Frames that arm_wait() found in its last check; returned by the next rx_burst().
    std::array<Frame*, kBurstMax> early{};
    std::uint32_t early_count = 0;
    int wait_descriptor = -1;
    bool interrupts = false;      // the descriptor only signals after rte_eth_dev_rx_intr_enable
    bool interrupt_seen = false;  // the last frames that a sleeping worker found had signalled
    // Taken with acquire, cleared with release, by workers that send through this queue: pairs with
    // itself.
    std::atomic_flag transmit_lock = ATOMIC_FLAG_INIT;
  };

  EthdevPort(std::string spec, const PortOptions& options);
  Status bring_up(const VdevSpec& vdev);
  Status bring_up_with_peer(const VdevSpec& vdev);
  void keep_trying(const VdevSpec& vdev);
  void abandon_peer();
  // What the driver refused; with the rights that are missing for it, if any.
  [[nodiscard]] Error refused(int code, const std::string& what) const;
  Status probe(const VdevSpec& vdev);
  Status configure(const VdevSpec& vdev);
  Status make_pool(std::uint32_t buffer_bytes, std::uint16_t rx_descriptors,
                   std::uint16_t tx_descriptors);
  // Allocates on this memory node. Returns DPDK's error; 0: success.
  int set_up_queues(std::uint16_t rx_descriptors, std::uint16_t tx_descriptors, int node);
  Status start();
  void close_device();
  void note_interface();
  Status enable_all_multicast();
  [[nodiscard]] std::string trouble(const std::optional<HostInterface>& found) const;
  void find_wait_descriptors(const std::vector<int>& known);
  std::uint32_t receive(Queue& self, std::uint16_t queue, Frame** frames, std::uint32_t max);
  [[nodiscard]] Error error(int code, const std::string& what) const;

  struct PoolDeleter {
    void operator()(rte_mempool* pool) const { rte_mempool_free(pool); }
  };

  std::string spec_;
  PortOptions options_;
  std::string device_name_;  // the EAL's name
  std::uint16_t id_;         // of the ethdev; RTE_MAX_ETHPORTS before it exists
  bool started_ = false;
  std::uint16_t rx_queues_ = 1;
  std::uint16_t tx_queues_ = 1;
  // Outlives the devices that are created one after another: workers hold frames of it.
  std::unique_ptr<rte_mempool, PoolDeleter> pool_;
  std::vector<std::unique_ptr<Queue>> queues_;  // index: worker

  // Set with release when the device runs, loaded with acquire before it is used: all that bring-up
  // has written is then visible.
  std::atomic<bool> up_{false};
  // Only for a driver on a kernel interface. Used by control.
  VdevSpec vdev_;
  std::string interface_;              // empty: none
  std::uint32_t interface_index_ = 0;  // of the one that the device is bound to
  UniqueFd all_multicast_;             // a packet socket, if the driver can't enable multicast
  std::string not_attached_;           // the reason for the last failed attempt
  std::uint64_t missed_before_ = 0;    // frames missed by earlier devices
  // Only while waiting for a peer.
  std::thread waiting_;
  std::string listens_on_;
  std::optional<EtherAddress> mac_;     // known while the device doesn't exist
  std::atomic<bool> abandoned_{false};  // set by the destructor, seen by keep_trying
  std::atomic<bool> trying_{true};      // cleared by keep_trying at its end
  std::promise<Status> first_try_;
};

}  // namespace uroce
