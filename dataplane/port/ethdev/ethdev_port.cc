// The datapath of an ethdev: receive and transmit bursts.

#include "dataplane/port/ethdev/ethdev_port.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "dataplane/port/ethdev/card_interrupts.h"

namespace uroce {
namespace {

Frame* frame_of(rte_mbuf* buffer) { return static_cast<Frame*>(rte_mbuf_to_priv(buffer)); }

// Makes an empty frame from an mbuf of the pool.
Frame* fresh_frame(rte_mbuf* buffer) {
  Frame* frame = frame_of(buffer);
  frame->data = rte_pktmbuf_mtod(buffer, std::byte*);
  frame->length = 0;
  frame->capacity = rte_pktmbuf_tailroom(buffer);
  frame->hairpin = false;
  frame->capture_serial = 0;
  frame->icrc_checked = false;
  frame->icrc_left_out = false;
  frame->buffer = buffer;
  return frame;
}

}  // namespace

std::uint32_t EthdevPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                   Time /*now*/) {
  if (!up_.load(std::memory_order_acquire) || queue >= rx_queues_) {
    return 0;
  }
  Queue& self = *queues_[queue];
  if (self.early_count > 0) [[unlikely]] {
    const std::uint32_t count = std::min(max, self.early_count);
    std::copy_n(self.early.begin(), count, frames);
    std::copy(self.early.begin() + count, self.early.begin() + self.early_count,
              self.early.begin());
    self.early_count -= count;
    return count;
  }
  return receive(self, queue, frames, max);
}

std::uint32_t EthdevPort::receive(Queue& self, std::uint16_t queue, Frame** frames,
                                  std::uint32_t max) {
  std::array<rte_mbuf*, kBurstMax> buffers;
  const std::uint16_t received = rte_eth_rx_burst(
      id_, queue, buffers.data(), static_cast<std::uint16_t>(std::min(max, kBurstMax)));
  std::uint32_t count = 0;
  for (std::uint16_t i = 0; i < received; ++i) {
    rte_mbuf* buffer = buffers[i];
    // Frames up to the MTU fit in one segment; longer ones may have several.
    if (buffer->nb_segs > 1 && rte_pktmbuf_linearize(buffer) != 0) [[unlikely]] {
      rte_pktmbuf_free(buffer);
      self.counters.missed(1);
      continue;
    }
    Frame* frame = fresh_frame(buffer);
    frame->length = buffer->data_len;
    frame->capacity += buffer->data_len;
    frames[count++] = frame;
  }
  self.counters.received(frames, count);
  return count;
}

std::uint32_t EthdevPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                   Time /*now*/) {
  if (!up_.load(std::memory_order_acquire)) {
    return 0;
  }
  std::array<rte_mbuf*, kBurstMax> buffers;
  const std::uint32_t offered = std::min(count, kBurstMax);
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < offered; ++i) {
    auto* buffer = static_cast<rte_mbuf*>(frames[i]->buffer);
    buffer->data_off =
        static_cast<std::uint16_t>(frames[i]->data - static_cast<std::byte*>(buffer->buf_addr));
    buffer->data_len = static_cast<std::uint16_t>(frames[i]->length);
    buffer->pkt_len = frames[i]->length;
    buffers[i] = buffer;
    bytes += frames[i]->length;
  }
  Queue& self = *queues_[queue];
  const auto shared = static_cast<std::uint16_t>(queue % tx_queues_);
  const bool alone = queues_.size() == tx_queues_;
  std::atomic_flag& lock = queues_[shared]->transmit_lock;
  while (!alone && lock.test_and_set(std::memory_order_acquire)) {
    sched_yield();
  }
  const std::uint32_t taken =
      rte_eth_tx_burst(id_, shared, buffers.data(), static_cast<std::uint16_t>(offered));
  if (!alone) {
    lock.clear(std::memory_order_release);
  }
  for (std::uint32_t i = taken; i < offered; ++i) {
    bytes -= frames[i]->length;
  }
  self.counters.sent(taken, bytes);
  if (taken < offered) {
    self.counters.refused(offered - taken);
  }
  return taken;
}

std::uint32_t EthdevPort::allocate(Frame** frames, std::uint32_t count) {
  std::array<rte_mbuf*, kBurstMax> buffers;
  std::uint32_t wanted = std::min(count, kBurstMax);
  // The bulk call is all or nothing; when the pool runs low, tries fewer.
  while (wanted > 0 && rte_pktmbuf_alloc_bulk(pool_.get(), buffers.data(), wanted) != 0) {
    wanted /= 2;
  }
  for (std::uint32_t i = 0; i < wanted; ++i) {
    frames[i] = fresh_frame(buffers[i]);
  }
  return wanted;
}

void EthdevPort::release(Frame** frames, std::uint32_t count) {
  std::array<rte_mbuf*, kBurstMax> buffers;
  while (count > 0) {
    const std::uint32_t some = std::min(count, kBurstMax);
    std::transform(frames, frames + some, buffers.begin(),
                   [](Frame* frame) { return static_cast<rte_mbuf*>(frame->buffer); });
    rte_pktmbuf_free_bulk(buffers.data(), some);
    frames += some;
    count -= some;
  }
}

PortInfo EthdevPort::info() const {
  PortInfo info;
  info.name = spec_;
  info.mtu = options_.mtu;
  info.queues = static_cast<std::uint16_t>(queues_.size());
  info.mac = mac_.value_or(EtherAddress{});
  // Frames of a recorded file have the Ethernet addresses of the stations at that time.
  info.any_mac = spec_.starts_with("net_pcap") && spec_.find("rx_pcap=") != std::string::npos;
  std::optional<HostInterface> interface;
  if (!interface_.empty()) {
    interface = host_interface(interface_);
    info.on_interface = true;
    info.trouble = trouble(interface);
  }
  if (!up_.load(std::memory_order_acquire)) {
    info.link_up = false;
    return info;
  }
  rte_ether_addr mac{};
  if (rte_eth_macaddr_get(id_, &mac) == 0) {
    std::copy_n(mac.addr_bytes, info.mac.bytes.size(), info.mac.bytes.begin());
  }
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(id_, &link) == 0) {
    info.link_up = info.on_interface ? info.trouble.empty() : link.link_status == RTE_ETH_LINK_UP;
    info.speed_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
    if (info.on_interface) {  // drivers always report 10 Gb/s
      info.speed_mbps = interface ? interface->speed_mbps : 0;
    }
  }
  return info;
}

PortCounters EthdevPort::counters() const {
  PortCounters sum;
  for (const auto& queue : queues_) {
    queue->counters.add_to(&sum);
  }
  sum.rx_missed += missed_before_;
  rte_eth_stats stats{};
  if (up_.load(std::memory_order_acquire) && rte_eth_stats_get(id_, &stats) == 0) {
    sum.rx_missed += stats.imissed + stats.ierrors + stats.rx_nombuf;
  }
  return sum;
}

int EthdevPort::wait_descriptor(std::uint16_t queue) const {
  const bool has_queue = up_.load(std::memory_order_acquire) && queue < rx_queues_;
  return has_queue ? queues_[queue]->wait_descriptor : -1;
}

// A frame may have arrived between the last receive and arming the interrupt, so check once more.
bool EthdevPort::arm_wait(std::uint16_t queue) {
  if (!up_.load(std::memory_order_acquire) || queue >= rx_queues_) {
    return true;
  }
  Queue& self = *queues_[queue];
  if (self.interrupts) {
    rte_eth_dev_rx_intr_enable(id_, queue);
  }
  if (self.early_count == 0) {
    self.early_count = receive(self, queue, self.early.data(), kBurstMax);
  }
  return self.early_count == 0;
}

void EthdevPort::disarm_wait(std::uint16_t queue) {
  if (up_.load(std::memory_order_acquire) && queue < rx_queues_ && queues_[queue]->interrupts) {
    Queue& self = *queues_[queue];
    rte_eth_dev_rx_intr_disable(id_, queue);
    if (!is_pci_address(spec_)) {
      return;
    }
    if (take_signal(self.wait_descriptor)) {
      self.interrupt_seen = true;
    } else if (self.interrupt_seen) {
      // Frames without an interrupt: it may only be late, as these are when they come just now.
      if (self.early_count == 0) {
        self.early_count = receive(self, queue, self.early.data(), kBurstMax);
      }
      self.interrupt_seen = self.early_count == 0;
    }
  }
}

Duration EthdevPort::signal_delay_max(std::uint16_t queue) const {
  if (!is_pci_address(spec_) || queue >= rx_queues_ || !queues_[queue]->interrupts) {
    return 0;
  }
  return queues_[queue]->interrupt_seen ? kInterruptDelayMax : kNever;
}

}  // namespace uroce
