#include "dataplane/port/faulty_port.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace uroce {
namespace {

// Frames that one lane holds back at most; then it pushes back.
constexpr std::uint32_t kHeldMax = 1'024;
// A reordered frame waits until so many later ones have passed, or for this time if none come.
constexpr std::uint32_t kPassesMax = 4;
constexpr Duration kReorderHold = 50 * kNanosecondsPerMicrosecond;

constexpr std::uint32_t kEtherHeader = 14;
constexpr std::uint32_t kVlanTag = 4;

// Where the IP header starts, or 0 if the frame carries something else.
std::uint32_t ip_offset(const Frame& frame) {
  std::uint32_t offset = kEtherHeader;
  if (frame.length < kEtherHeader + kVlanTag) {
    return 0;
  }
  auto type_at = [&frame](std::uint32_t end) {
    return std::to_integer<unsigned>(frame.data[end - 2]) << 8U |
           std::to_integer<unsigned>(frame.data[end - 1]);
  };
  if (type_at(offset) == 0x8100) {
    offset += kVlanTag;
  }
  const unsigned type = type_at(offset);
  return (type == 0x0800 || type == 0x86DD) && frame.length > offset ? offset : 0;
}

}  // namespace

// splitmix64: small, and good enough to draw fates.
class FateGenerator {
 public:
  explicit FateGenerator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E37'79B9'7F4A'7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58'476D'1CE4'E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D0'49BB'1331'11EBU;
    return z ^ (z >> 31U);
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11U) * 0x1p-53 < probability;
  }

 private:
  std::uint64_t state_;
};

// One direction of one queue.
class FaultyPort::Lane {
 public:
  Lane(const Faults& faults, std::uint64_t number)
      : faults_(faults), random_(faults.seed * 0x1'0001U + number) {}

  // Frames that offer() would take: each may be repeated.
  [[nodiscard]] std::uint32_t room() const {
    return (kHeldMax - static_cast<std::uint32_t>(line_.size() + late_.size())) / 2;
  }

  // Takes all of them. REQUIRES: count <= room().
  void offer(Frame* const* frames, std::uint32_t count, bool enabled, Port& port, Time now) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (enabled) {
        decide(frames[i], port, now);
      } else {
        line_.push_back({frames[i], now, 0});
      }
    }
  }

  // Hands out the frames whose time has come.
  std::uint32_t take(Frame** frames, std::uint32_t max, Time now) {
    std::uint32_t count = 0;
    while (count < max && !late_.empty() &&
           (late_.front().passes == 0 || late_.front().due <= now)) {
      frames[count++] = late_.front().frame;
      late_.pop_front();
    }
    while (count < max && !line_.empty() && line_.front().due <= now) {
      frames[count++] = line_.front().frame;
      line_.pop_front();
      for (Held& held : late_) {
        held.passes -= held.passes > 0 ? 1 : 0;
      }
      while (count < max && !late_.empty() && late_.front().passes == 0) {
        frames[count++] = late_.front().frame;
        late_.pop_front();
      }
    }
    return count;
  }

  // Puts frames back that nobody took, in front.
  void put_back(Frame* const* frames, std::uint32_t count) {
    while (count > 0) {
      line_.push_front({frames[--count], 0, 0});
    }
  }

  [[nodiscard]] Time next_due() const {
    const Time line = line_.empty() ? kNever : line_.front().due;
    const Time late = late_.empty() ? kNever : late_.front().due;
    return std::min(line, late);
  }

  void release_all(Port& port) {
    for (auto* list : {&line_, &late_}) {
      for (Held& held : *list) {
        port.release(&held.frame, 1);
      }
    }
  }

  void add_to(LinkFaultCounts* sum) const {
    sum->frames += frames_.load(std::memory_order_relaxed);
    sum->lost += lost_.load(std::memory_order_relaxed);
    sum->repeated += repeated_.load(std::memory_order_relaxed);
    sum->reordered += reordered_.load(std::memory_order_relaxed);
    sum->corrupted += corrupted_.load(std::memory_order_relaxed);
  }

 private:
  struct Held {
    Frame* frame;
    Time due;
    std::uint32_t passes;  // frames that have yet to overtake it
  };
  // Written by the queue's worker only, read by any thread. Relaxed: a counter orders nothing.
  using Counter = std::atomic<std::uint64_t>;
  static void count(Counter& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

  void decide(Frame* frame, Port& port, Time now) {
    count(frames_);
    // All are drawn for each frame, so that one fault's probability doesn't shift another's draws.
    const bool lose = random_.chance(faults_.loss);
    const bool repeat = random_.chance(faults_.dup);
    const bool reorder = random_.chance(faults_.reorder);
    const bool corrupt = random_.chance(faults_.corrupt);
    const std::uint64_t detail = random_.next();
    if (lose) {
      count(lost_);
      port.release(&frame, 1);
      return;
    }
    const Time due = now + faults_.delay;
    if (Frame* copy = nullptr; repeat && port.allocate(&copy, 1) == 1) {
      std::memcpy(copy->data, frame->data, frame->length);
      copy->length = frame->length;
      line_.push_back({copy, due, 0});
      count(repeated_);
    }
    if (corrupt && !flip_a_bit(*frame, detail)) {
      port.release(&frame, 1);
      return;
    }
    if (reorder) {
      const auto passes = static_cast<std::uint32_t>(detail >> 32U) % kPassesMax + 1;
      late_.push_back({frame, due + kReorderHold, passes});
      std::stable_sort(late_.begin(), late_.end(),
                       [](const Held& a, const Held& b) { return a.passes < b.passes; });
      count(reordered_);
      return;
    }
    line_.push_back({frame, due, 0});
  }

  // From the IP header on, where checksum or ICRC must notice. What has neither (ARP) is lost
  // instead, as an Ethernet checksum would have it: then false.
  bool flip_a_bit(Frame& frame, std::uint64_t detail) {
    const std::uint32_t start = ip_offset(frame);
    count(corrupted_);
    if (start == 0) {
      return false;
    }
    frame.icrc_checked = false;
    const std::uint64_t bit = detail % (std::uint64_t{frame.length - start} * 8);
    frame.data[start + bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    return true;
  }

  Faults faults_;
  FateGenerator random_;
  std::deque<Held> line_;  // in order
  std::deque<Held> late_;  // reordered ones, soonest first
  Counter frames_{0}, lost_{0}, repeated_{0}, reordered_{0}, corrupted_{0};
};

struct FaultyPort::Queue {
  Queue(const Faults& faults, std::uint64_t index)
      : receive(faults, index * 2), transmit(faults, index * 2 + 1) {}
  Lane receive;
  Lane transmit;
};

FaultyPort::FaultyPort(std::unique_ptr<Port> inner, const Faults& faults)
    : inner_(std::move(inner)) {
  for (std::uint16_t i = 0; i < inner_->info().queues; ++i) {
    queues_.push_back(std::make_unique<Queue>(faults, i));
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

// Sends what is due; runs at every receive too, so that held frames leave though nobody sends.
void FaultyPort::pump(Queue& queue, std::uint16_t index, Time now) {
  std::array<Frame*, kBurstMax> burst;
  std::uint32_t count = 0;
  while ((count = queue.transmit.take(burst.data(), kBurstMax, now)) > 0) {
    const std::uint32_t sent = inner_->tx_burst(index, burst.data(), count, now);
    if (sent < count) {
      queue.transmit.put_back(burst.data() + sent, count - sent);
      return;
    }
  }
}

std::uint32_t FaultyPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                   Time now) {
  Queue& self = *queues_[queue];
  pump(self, queue, now);
  std::array<Frame*, kBurstMax> burst;
  const std::uint32_t count =
      inner_->rx_burst(queue, burst.data(), std::min({max, kBurstMax, self.receive.room()}), now);
  self.receive.offer(burst.data(), count, enabled_.load(std::memory_order_relaxed), *inner_, now);
  return self.receive.take(frames, max, now);
}

std::uint32_t FaultyPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                   Time now) {
  Queue& self = *queues_[queue];
  pump(self, queue, now);
  const std::uint32_t taken = std::min(count, self.transmit.room());
  self.transmit.offer(frames, taken, enabled_.load(std::memory_order_relaxed), *inner_, now);
  pump(self, queue, now);
  return taken;
}

Time FaultyPort::next_due(std::uint16_t queue) const {
  return std::min(queues_[queue]->receive.next_due(), queues_[queue]->transmit.next_due());
}

}  // namespace uroce
