// Sets up an ethdev: probe, buffers, queues, start, and wait descriptors.

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/page.h"
#include "dataplane/port/ethdev/card_interrupts.h"
#include "dataplane/port/ethdev/ethdev_port.h"
#include "dataplane/port/ethdev/open_descriptors.h"
#include "dataplane/port/ethdev/packet_fanout.h"
#include "dataplane/port/ethdev/pci_device.h"
#include "dataplane/port/ethdev/vdev_spec.h"

namespace uroce {
namespace {

constexpr std::uint16_t kDescriptors = 1'024;  // per queue, if the driver supports it
// Buffers beyond those in the queues: in the workers' rings, or being built; and of each worker,
// waiting: for an earlier frame, or for memory (Worker::kOutOfOrderTotalMax,
// Worker::kParkedTotalMax).
constexpr std::uint32_t kBuffersSpare = 2'560;
constexpr std::uint32_t kBuffersWaiting = 2'560;
// Additional buffers if a driver leaks some each time that its device is recreated.
constexpr std::uint32_t kBuffersToForget = 12'288;
constexpr std::uint32_t kCacheSize = 256;  // of each lcore
// Private area in front of each buffer.
constexpr std::uint16_t kPrivate =
    (sizeof(Frame) + RTE_MBUF_PRIV_ALIGN - 1) / RTE_MBUF_PRIV_ALIGN * RTE_MBUF_PRIV_ALIGN;
// In front of the frame: DPDK's headroom and two bytes, so that an IP header is aligned.
constexpr std::uint32_t kBufferAlignment = 64;

// Whether the descriptor is a socket that receives frames.
bool is_packet_socket(int descriptor) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) {
    return false;
  }
  return domain == AF_PACKET || domain == AF_XDP;
}

// Together with DPDK's overhead, a buffer then takes exactly a page, so that there are no gaps. The
// largest frame fits into it, headroom included.
static_assert(sizeof(rte_mempool_objhdr) <= RTE_MEMPOOL_ALIGN);
static_assert(RTE_MEMPOOL_ALIGN + sizeof(rte_mbuf) + kPrivate + RTE_PKTMBUF_HEADROOM +
                  kXdpBufferMax <=
              kPage);
std::uint32_t room_in_a_page() {
  return kPage -
         rte_mempool_calc_obj_size(sizeof(rte_mbuf) + kPrivate, RTE_MEMPOOL_F_NO_SPREAD, nullptr);
}

// Like rte_pktmbuf_pool_create, which takes no flags.
rte_mempool* create_pool(const std::string& name, std::uint32_t buffers, std::uint32_t room,
                         int node, unsigned flags) {
  rte_mempool* const pool = rte_mempool_create_empty(
      name.c_str(), buffers, static_cast<unsigned>(sizeof(rte_mbuf)) + kPrivate + room, kCacheSize,
      sizeof(rte_pktmbuf_pool_private), node, flags);
  if (pool == nullptr) {
    return nullptr;
  }
  rte_pktmbuf_pool_private about{};
  about.mbuf_data_room_size = static_cast<std::uint16_t>(room);
  about.mbuf_priv_size = kPrivate;
  int failed = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  if (failed == 0) {
    rte_pktmbuf_pool_init(pool, &about);
    failed = std::min(rte_mempool_populate_default(pool), 0);
  }
  if (failed != 0) {
    rte_mempool_free(pool);
    rte_errno = -failed;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace

// A PCI device was probed when the EAL started; a vdev is made now.
Status EthdevPort::probe(const VdevSpec& vdev) {
  device_name_ = vdev.name;
  if (is_pci_address(spec_)) {
    device_name_ = full_pci_address(device_name_);
    if (rte_eth_dev_get_port_by_name(device_name_.c_str(), &id_) != 0) {
      return error(ENODEV, pci_device_trouble(device_name_));
    }
    return ok();
  }
  const FanoutByOwner by_owner(options_.queues);
  const int made = rte_eal_hotplug_add("vdev", vdev.name.c_str(), vdev.arguments.c_str());
  if (made == -EEXIST) {
    return error(made, "this device exists already; give each a number, as in net_memif1");
  }
  if (made == -EFAULT) {  // no driver's name is the beginning of this one
    return error(ENOPKG,
                 "DPDK has no driver for the name " + vdev.name +
                     ": correct it, or install the driver; Debian's are in librte-meta-net");
  }
  if (made != 0) {
    return refused(made, "the driver refused " + vdev.name +
                             (vdev.arguments.empty() ? "" : "," + vdev.arguments));
  }
  if (rte_eth_dev_get_port_by_name(vdev.name.c_str(), &id_) != 0) {
    return error(ENODEV, "this isn't a network device");
  }
  return ok();
}

Status EthdevPort::make_pool(std::uint32_t buffer_bytes, std::uint16_t rx_descriptors,
                             std::uint16_t tx_descriptors) {
  if (pool_ != nullptr) {
    return ok();
  }
  const bool pages = vdev_.buffers_without_gaps;
  const std::uint32_t room = pages ? room_in_a_page()
                                   : RTE_PKTMBUF_HEADROOM + (buffer_bytes + kBufferAlignment - 1) /
                                                                kBufferAlignment * kBufferAlignment;
  const std::uint32_t buffers = kBuffersSpare + kBuffersWaiting * options_.queues +
                                rx_queues_ * std::uint32_t{rx_descriptors} +
                                tx_queues_ * std::uint32_t{tx_descriptors} +
                                (vdev_.forgets_buffers ? kBuffersToForget : 0);
  static std::atomic<std::uint32_t> pools{0};
  const std::string name = "uroce_port_" + std::to_string(pools.fetch_add(1));
  // On the device's memory node, which it accesses fastest; on any node, if that one has no free
  // memory. A device without a node, or that doesn't exist yet, reports SOCKET_ID_ANY itself.
  for (const int node : {rte_eth_dev_socket_id(id_), SOCKET_ID_ANY}) {
    if (pool_ == nullptr) {
      pool_.reset(create_pool(name, buffers, room, node, pages ? RTE_MEMPOOL_F_NO_SPREAD : 0));
    }
  }
  if (pool_ == nullptr) {
    return error(rte_errno, "no memory for " + std::to_string(buffers) + " buffers of " +
                                std::to_string(room) +
                                " bytes; reserve huge pages or give -- -m MEGABYTES");
  }
  return ok();
}

int EthdevPort::set_up_queues(std::uint16_t rx_descriptors, std::uint16_t tx_descriptors,
                              int node) {
  const auto socket = static_cast<unsigned>(node);
  int failed = 0;
  for (std::uint16_t i = 0; i < rx_queues_ && failed == 0; ++i) {
    failed = rte_eth_rx_queue_setup(id_, i, rx_descriptors, socket, nullptr, pool_.get());
  }
  for (std::uint16_t i = 0; i < tx_queues_ && failed == 0; ++i) {
    failed = rte_eth_tx_queue_setup(id_, i, tx_descriptors, socket, nullptr);
  }
  return failed;
}

Status EthdevPort::configure(const VdevSpec& vdev) {
  rte_eth_dev_info about{};
  if (const int failed = rte_eth_dev_info_get(id_, &about); failed != 0) {
    return error(failed, "the driver doesn't describe the device");
  }
  rx_queues_ = std::min(options_.queues, std::max<std::uint16_t>(about.max_rx_queues, 1));
  tx_queues_ = std::min(options_.queues, std::max<std::uint16_t>(about.max_tx_queues, 1));
  rte_eth_conf wanted{};
  if (!vdev.mtu_by_arguments) {
    wanted.rxmode.mtu = options_.mtu;
  }
  wanted.txmode.offloads = about.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  constexpr std::uint64_t kSpread = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
  if (rx_queues_ > 1 && (about.flow_type_rss_offloads & kSpread) != 0) {
    wanted.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    wanted.rx_adv_conf.rss_conf.rss_hf = about.flow_type_rss_offloads & kSpread;
  }
  // With interrupts if the driver has them; a sleeping worker is then woken by a frame.
  wanted.intr_conf.rxq = 1;
  int failed = rte_eth_dev_configure(id_, rx_queues_, tx_queues_, &wanted);
  if (failed != 0) {
    wanted.intr_conf.rxq = 0;
    failed = rte_eth_dev_configure(id_, rx_queues_, tx_queues_, &wanted);
  }
  if (failed != 0) {
    return error(failed, "the driver refused " + std::to_string(rx_queues_) + " queues and MTU " +
                             std::to_string(options_.mtu) + "; try a smaller --mtu or --workers");
  }
  std::uint16_t rx_descriptors = kDescriptors;
  std::uint16_t tx_descriptors = kDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors, &tx_descriptors);
  if (Status made = make_pool(vdev.buffer_bytes, rx_descriptors, tx_descriptors); !made) {
    return made;
  }
  // On the same memory node as the buffers.
  for (const int node : {pool_->socket_id, SOCKET_ID_ANY}) {
    failed = set_up_queues(rx_descriptors, tx_descriptors, node);
    if (failed != -ENOMEM) {
      break;
    }
  }
  return failed == 0 ? ok() : refused(failed, "the driver refused a queue");
}

Status EthdevPort::start() {
  if (const int failed = rte_eth_dev_start(id_); failed != 0) {
    return refused(failed, "the device didn't start");
  }
  started_ = true;
  return ok();
}

// The descriptors of receive interrupts if the driver has them; otherwise the sockets that it
// opened, one per queue, which poll as readable when frames are there. Otherwise none, and the
// worker naps.
void EthdevPort::find_wait_descriptors(const std::vector<int>& known) {
  const bool interrupts = device_name_.starts_with("net_virtio_user") || is_pci_address(spec_);
  for (std::uint16_t i = 0; i < rx_queues_ && interrupts; ++i) {
    const int descriptor = rte_eth_dev_rx_intr_ctl_q_get_fd(id_, i);
    if (descriptor >= 0 && rte_eth_dev_rx_intr_enable(id_, i) == 0) {
      rte_eth_dev_rx_intr_disable(id_, i);
      (void)take_signal(descriptor);  // of an earlier event, which doesn't show that frames signal
      queues_[i]->interrupt_seen = false;
      queues_[i]->wait_descriptor = descriptor;
      queues_[i]->interrupts = true;
    }
  }
  std::vector<int> sockets;
  for (const int descriptor : open_descriptors()) {
    if (!std::binary_search(known.begin(), known.end(), descriptor) &&
        is_packet_socket(descriptor)) {
      sockets.push_back(descriptor);
    }
  }
  if (sockets.size() == rx_queues_) {
    for (std::uint16_t i = 0; i < rx_queues_; ++i) {
      queues_[i]->wait_descriptor = sockets[i];
    }
  }
}

}  // namespace uroce
