#include "dataplane/port/loopback_port.h"

namespace uroce {

LoopbackPort::LoopbackPort(std::uint32_t mtu, std::uint16_t queues, std::uint8_t number)
    : mtu_(mtu), number_(number), pool_(kFramesPerQueue * queues, mtu + kEthernetOverhead) {
  for (std::uint16_t i = 0; i < queues; ++i) {
    queues_.push_back(std::make_unique<Queue>());
  }
}

std::uint32_t LoopbackPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                     Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::uint32_t count = self.ring.dequeue(frames, max);
  self.counters.received(frames, count);
  return count;
}

std::uint32_t LoopbackPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                     Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::uint32_t taken = self.ring.enqueue(frames, count);
  self.counters.sent(frames, taken);  // still valid: only this worker dequeues
  if (taken < count) {
    self.counters.refused(count - taken);
  }
  return taken;
}

std::uint32_t LoopbackPort::allocate(Frame** frames, std::uint32_t count) {
  return pool_.allocate(frames, count);
}

void LoopbackPort::release(Frame** frames, std::uint32_t count) { pool_.release(frames, count); }

PortInfo LoopbackPort::info() const {
  return {.name = "loopback",
          // Local, "uroce", "urocf" and so on.
          .mac = EtherAddress{{0x02, 0x75, 0x72, 0x6F, 0x63,
                               static_cast<std::uint8_t>(0x65 + number_)}},
          .mtu = mtu_,
          .queues = static_cast<std::uint16_t>(queues_.size()),
          .speed_mbps = kMemorySpeedMbps,
          .loops_back = true};
}

PortCounters LoopbackPort::counters() const {
  PortCounters sum;
  for (const auto& queue : queues_) {
    queue->counters.add_to(&sum);
  }
  return sum;
}

bool LoopbackPort::arm_wait(std::uint16_t queue) { return queues_[queue]->ring.empty(); }

}  // namespace uroce
