#include "dataplane/port/faults/faulty_port.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "dataplane/port/faults/bottleneck.h"
#include "dataplane/port/faults/fault_events.h"
#include "dataplane/port/faults/fault_lane.h"

namespace uroce {

// State common to all queues.
struct FaultyPort::Shared {
  std::deque<Bottleneck> narrows;       // one per direction: receiving and sending
  std::unique_ptr<FaultEvents> events;  // nullptr: none
  bool receives_events = false;
};

struct FaultyPort::Queue {
  Queue(const Faults& faults, std::uint64_t index, std::shared_ptr<Shared> of_all)
      : shared(std::move(of_all)),
        receive(faults, index * 2, shared->narrows.empty() ? nullptr : &shared->narrows[0],
                shared->receives_events ? shared->events.get() : nullptr),
        transmit(faults, index * 2 + 1, shared->narrows.empty() ? nullptr : &shared->narrows[1],
                 shared->events.get()) {}
  std::shared_ptr<Shared> shared;
  FaultLane receive;
  FaultLane transmit;
};

FaultyPort::FaultyPort(std::unique_ptr<Port> inner, const Faults& faults)
    : inner_(std::move(inner)), queues_(make_queues(faults)) {}

std::vector<std::unique_ptr<FaultyPort::Queue>> FaultyPort::make_queues(
    const Faults& faults) const {
  const PortInfo info = inner_->info();
  auto shared = std::make_shared<Shared>();
  if (faults.bottleneck.rate != 0) {
    shared->narrows.emplace_back(faults.bottleneck);
    shared->narrows.emplace_back(faults.bottleneck);
  }
  if (!faults.events.empty()) {
    shared->events = std::make_unique<FaultEvents>(faults.events);
    shared->receives_events = !info.loops_back;
  }
  std::vector<std::unique_ptr<Queue>> made;
  for (std::uint16_t i = 0; i < info.queues; ++i) {
    made.push_back(std::make_unique<Queue>(faults, i, shared));
  }
  return made;
}

void FaultyPort::change(const Faults& faults) { next_ = make_queues(faults); }

void FaultyPort::take_over(std::uint16_t queue) {
  inner_->take_over(queue);
  if (queue < next_.size() && next_[queue] != nullptr) {
    queues_[queue]->receive.release_all(*inner_);
    queues_[queue]->transmit.release_all(*inner_);
    queues_[queue] = std::move(next_[queue]);
  }
}

FaultyPort::~FaultyPort() {
  for (auto& queue : queues_) {
    queue->receive.release_all(*inner_);
    queue->transmit.release_all(*inner_);
  }
}

LinkFaultCounts FaultyPort::fault_counts() const {
  LinkFaultCounts sum;
  for (const auto& queue : queues_) {
    queue->receive.add_to(&sum);
    queue->transmit.add_to(&sum);
  }
  return sum;
}

// Sends frames that are due; also runs at every receive, so that held frames leave even if nothing
// is sent. False if the inner port accepted fewer.
bool FaultyPort::pump(Queue& queue, std::uint16_t index, Time now) {
  std::array<Frame*, kBurstMax> burst;
  std::uint32_t count = 0;
  while ((count = queue.transmit.take(burst.data(), kBurstMax, now)) > 0) {
    const std::uint32_t sent = inner_->tx_burst(index, burst.data(), count, now);
    if (sent < count) {
      queue.transmit.put_back(burst.data() + sent, count - sent);
      return false;
    }
  }
  return true;
}

std::uint32_t FaultyPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                   Time now) {
  Queue& self = *queues_[queue];
  pump(self, queue, now);
  std::array<Frame*, kBurstMax> burst;
  const std::uint32_t count =
      inner_->rx_burst(queue, burst.data(), std::min({max, kBurstMax, self.receive.room()}), now);
  for (std::uint32_t i = 0; i < count; ++i) {
    complete(*burst[i]);  // faults examine all bytes, and change some
  }
  self.receive.offer(burst.data(), count, enabled_.load(std::memory_order_relaxed), *inner_, now);
  return self.receive.take(frames, max, now);
}

std::uint32_t FaultyPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                   Time now) {
  Queue& self = *queues_[queue];
  if (!pump(self, queue, now)) {
    return 0;  // the inner port's queue is full
  }
  const std::uint32_t taken = std::min(count, self.transmit.room());
  self.transmit.offer(frames, taken, enabled_.load(std::memory_order_relaxed), *inner_, now);
  pump(self, queue, now);
  return taken;
}

Time FaultyPort::next_due(std::uint16_t queue) const {
  return std::min({queues_[queue]->receive.next_due(), queues_[queue]->transmit.next_due(),
                   inner_->next_due(queue)});
}

}  // namespace uroce
