#include "dataplane/port/shm/shm_port.h"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/prefetch.h"
#include "base/start_thread.h"
#include "dataplane/port/shm/shm_spec.h"

namespace uroce {
namespace {

// Like the stride of frames to send (shm_link.cc): an odd number of cache lines.
std::size_t received_stride(std::uint32_t capacity) {
  return ((capacity + kCacheLine - 1) / kCacheLine | 1U) * kCacheLine;
}

}  // namespace

Result<std::unique_ptr<Port>> ShmPort::open(const std::string& spec, const PortOptions& options) {
  const auto parsed = parse_shm_spec(spec);
  if (!parsed) {
    return parsed.error();
  }
  if (options.queues > kShmQueuesMax) {
    return Error{EINVAL,
                 "port " + spec + ": is for at most " + std::to_string(kShmQueuesMax) + " workers"};
  }
  std::unique_ptr<ShmPort> port(new ShmPort(spec, parsed->path, options));
  if (const Status possible = port->rendezvous_.check(); !possible) {
    return Error{possible.error().code, "port " + spec + ": " + possible.error().message};
  }
  const bool valid =
      port->stop_.valid() && std::all_of(port->queues_.begin(), port->queues_.end(),
                                         [](const auto& queue) { return queue->wakeup.valid(); });
  if (!valid || !port->make_link()) {
    return Error{ENOMEM, "port " + spec + ": can't make memory and eventfds to share"};
  }
  auto started = start_thread("port " + spec, [self = port.get()] { self->run(); });
  if (!started) {
    return started.error();
  }
  port->thread_ = std::move(*started);
  return std::unique_ptr<Port>(std::move(port));
}

ShmPort::ShmPort(std::string spec, std::string path, const PortOptions& options)
    : spec_(std::move(spec)),
      mtu_(options.mtu),
      mac_(options.addresses.empty() ? EtherAddress{{2, 0, 0, 0, 0, 1}}
                                     : stand_in_mac(options.addresses.front())),
      received_(kReceivedPerQueue * options.queues, mtu_ + kEthernetOverhead),
      trouble_("no daemon is at the other end of " + path + ": start one with the same path"),
      rendezvous_(std::move(path)) {
  const std::size_t stride = received_stride(received_.capacity());
  const std::uint32_t count = kReceivedPerQueue * options.queues;
  // Not zeroed, so that pages are allocated at first use.
  received_memory_ = std::make_unique_for_overwrite<std::byte[]>(stride * count);
  for (std::uint32_t i = 0; i < count; ++i) {
    received_.add(i, received_memory_.get() + stride * i).received = true;
  }
  for (std::uint16_t i = 0; i < options.queues; ++i) {
    queues_.push_back(std::make_unique<Queue>());
  }
}

ShmPort::~ShmPort() {
  stopping_.store(true);
  stop_.ring();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ShmPort::run() {
  ::prctl(PR_SET_NAME, "uroce-wire");
  while (!stopping_.load()) {
    destroy_ended();
    const auto connection = rendezvous_.meet(stop_.get());
    if (connection && !connection->valid()) {
      continue;
    }
    const Status joined = connection ? join(connection->get()) : Status(connection.error());
    if (!joined) {
      set_trouble(joined.error().message);
      ShmRendezvous::pause(stop_.get());
      continue;
    }
    while (!stopping_.load() && !link_->broken() &&
           rendezvous_.watch(connection->get(), stop_.get()) == ShmRendezvous::Watched::kAlive) {
      destroy_ended();
    }
    part();
  }
}

Status ShmPort::join(int connection) {
  std::vector<int> wakeups;
  for (const auto& queue : queues_) {
    wakeups.push_back(queue->wakeup.get());
  }
  const ShmMemory& memory = link_->memory();
  const ShmHello hello{.queues = static_cast<std::uint32_t>(queues_.size()),
                       .slots = memory.slots(),
                       .stride = memory.stride(),
                       .mtu = mtu_};
  auto peer = exchange_hello(connection, stop_.get(), hello, memory, wakeups);
  if (!peer) {
    renew_link();  // the failed peer may have mapped our memory
    return peer.error();
  }
  const std::uint32_t mtu = peer->mtu;
  std::vector<std::unique_lock<SpinLock>> held;
  for (const auto& queue : queues_) {
    held.emplace_back(queue->lock);
  }
  held.emplace_back(lock_);
  link_->join(std::move(*peer));
  held.clear();
  set_trouble(mtu == mtu_ ? ""
                          : "the daemon at the other end has MTU " + std::to_string(mtu) +
                                ": longer frames than the smaller MTU of both are lost; give both "
                                "the same --mtu");
  for (const auto& queue : queues_) {
    queue->wakeup.ring();  // sleepers check for frames that arrived meanwhile
  }
  joined_.store(true, std::memory_order_release);  // last: publishes all of the above
  return ok();
}

// Frames in flight are lost, as when a cable is pulled.
void ShmPort::part() {
  set_trouble(link_->broken() ? "the daemon at the other end wrote invalid indices: restart it"
                              : "the daemon at the other end has gone: start it again");
  renew_link();
  joined_.store(false);
}

// Memory that one daemon has had access to isn't given to the next one.
void ShmPort::renew_link() {
  while (!make_link() && !stopping_.load()) {
    joined_.store(false);
    ShmRendezvous::pause(stop_.get());
    destroy_ended();
  }
}

// Replaces the link by a new one. False: there are too many, or no memory.
bool ShmPort::make_link() {
  auto made = ShmLink::make(static_cast<std::uint16_t>(queues_.size()), mtu_, lock_);
  if (!made || ended_.size() >= kEndedMax + queues_.size()) {
    return false;
  }
  ShmLink* const next = made->get();
  for (const auto& queue : queues_) {
    const std::lock_guard guard(queue->lock);
    queue->link = next;
  }
  const std::lock_guard guard(lock_);
  link_.swap(*made);
  generation_.fetch_add(1, std::memory_order_relaxed);
  if (*made != nullptr) {
    ended_.push_back(std::move(*made));
  }
  return true;
}

void ShmPort::destroy_ended() {
  std::vector<std::unique_ptr<ShmLink>> idle;  // unmapped without the lock
  const std::lock_guard guard(lock_);
  const auto first =
      std::partition(ended_.begin(), ended_.end(), [](const auto& link) { return !link->idle(); });
  idle.assign(std::make_move_iterator(first), std::make_move_iterator(ended_.end()));
  ended_.erase(first, ended_.end());
}

void ShmPort::set_trouble(std::string trouble) {
  const std::lock_guard guard(trouble_mutex_);
  trouble_ = std::move(trouble);
}

std::uint32_t ShmPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::lock_guard guard(self.lock);
  const std::uint32_t waiting = self.link->waiting(queue, std::min(max, kBurstMax));
  if (waiting == 0) {
    return 0;
  }
  std::array<ShmBuffer*, kBurstMax> buffers;
  std::uint32_t taken = 0;
  {
    const std::lock_guard pool(lock_);
    while (taken < waiting && (buffers[taken] = received_.take()) != nullptr) {
      ++taken;
    }
  }
  const std::uint32_t count = self.link->receive(queue, buffers.data(), taken, &self.counters);
  if (count < taken) [[unlikely]] {
    const std::lock_guard pool(lock_);
    for (std::uint32_t i = count; i < taken; ++i) {
      received_.put_first(*buffers[i]);
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    frames[i] = &buffers[i]->frame;
  }
  self.counters.received(frames, count);
  return count;
}

std::uint32_t ShmPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::lock_guard guard(self.lock);
  std::uint32_t movable = 0;
  while (movable < count && (ShmBuffer::of(*frames[movable]).link == self.link ||
                             move_over(&frames[movable], self.link))) {
    ++movable;
  }
  const std::uint32_t sent = self.link->send(queue, frames, movable, &self.counters);
  if (sent < count) {
    self.counters.refused(count - sent);
  }
  return sent;
}

// Moves a frame that was built in memory of an ended link, from a worker's stock of empty frames,
// to the current link. False: no frame is available.
bool ShmPort::move_over(Frame** frame, const ShmLink* link) {
  Frame* moved = nullptr;
  if (allocate(&moved, 1) == 0) {
    return false;
  }
  if (ShmBuffer::of(*moved).link != link) {
    release(&moved, 1);
    return false;
  }
  std::memcpy(moved->data, (*frame)->data, (*frame)->length);
  moved->length = (*frame)->length;
  moved->icrc_left_out = (*frame)->icrc_left_out;
  moved->hairpin = (*frame)->hairpin;
  moved->sent_for = (*frame)->sent_for;
  std::swap(*frame, moved);
  release(&moved, 1);
  return true;
}

std::uint32_t ShmPort::allocate(Frame** frames, std::uint32_t count) {
  const std::lock_guard guard(lock_);
  return link_->allocate(frames, count);
}

void ShmPort::release(Frame** frames, std::uint32_t count) {
  const std::lock_guard guard(lock_);
  ShmLink* returned_to = nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    ShmBuffer& buffer = ShmBuffer::of(*frames[i]);
    ShmLink* const link = buffer.link;
    if (!buffer.received) {
      link->release(buffer);
      continue;
    }
    if (link != nullptr) {
      if (returned_to != nullptr && returned_to != link) [[unlikely]] {
        returned_to->publish_returns();
      }
      returned_to = link;
      link->release(buffer);
      buffer.link = nullptr;
    }
    received_.put_first(buffer);
  }
  if (returned_to != nullptr) {
    returned_to->publish_returns();
  }
}

PortInfo ShmPort::info() const {
  const std::lock_guard guard(trouble_mutex_);
  return {.name = spec_,
          .mac = mac_,
          .mtu = mtu_,
          .queues = static_cast<std::uint16_t>(queues_.size()),
          .link_up = joined_.load(std::memory_order_acquire),
          .trouble = trouble_,
          .speed_mbps = kMemorySpeedMbps};
}

PortCounters ShmPort::counters() const {
  PortCounters sum;
  for (const auto& queue : queues_) {
    queue->counters.add_to(&sum);
  }
  return sum;
}

int ShmPort::wait_descriptor(std::uint16_t queue) const { return queues_[queue]->wakeup.get(); }

bool ShmPort::arm_wait(std::uint16_t queue) {
  Queue& self = *queues_[queue];
  const std::lock_guard guard(self.lock);
  self.link->fall_asleep(queue);
  return self.link->waiting(queue, 1) == 0;
}

void ShmPort::disarm_wait(std::uint16_t queue) {
  Queue& self = *queues_[queue];
  const std::lock_guard guard(self.lock);
  self.link->wake_up(queue);
}

}  // namespace uroce
