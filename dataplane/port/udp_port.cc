#include "dataplane/port/udp_port.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "base/system_error.h"
#include "dataplane/port/host_interface.h"
#include "dataplane/port/udp_receive.h"
#include "dataplane/port/udp_send.h"
#include "dataplane/port/udp_socket.h"
#include "dataplane/port/udp_spec.h"

namespace uroce {
namespace {

// Asking a socket that has nothing costs a system call: of several only the one that gave something
// last is asked every turn.
constexpr std::uint32_t kTurnsPerLook = 4;

}  // namespace

// One worker's: a socket for each address.
struct UdpPort::Queue {
  explicit Queue(std::uint32_t segments)
      : sender(segments), any_readable(::epoll_create1(EPOLL_CLOEXEC)) {}

  std::uint32_t take_errors(FramePool& pool, Frame** frames, std::uint32_t max) {
    std::uint32_t count = 0;
    if (may_have_errors) [[unlikely]] {
      for (const UdpReceiver& receiver : receivers) {
        count += receiver.take_errors(pool, frames + count, max - count);
      }
      may_have_errors = count == max;
    }
    return count;
  }

  UdpSender sender;
  std::deque<UdpReceiver> receivers;
  std::vector<UniqueFd> sockets;
  std::uint32_t turns = 0;
  std::size_t latest = 0;        // the receiver that gave something last
  bool may_have_errors = false;  // sockets may have something in their error queues
  UniqueFd any_readable;         // epoll: one descriptor to wait for, however many sockets
  QueueCounters counters;
};

UdpPort::UdpPort(std::string spec, const PortOptions& options, std::uint32_t segments)
    : spec_(std::move(spec)),
      address_(options.addresses.front()),
      mtu_(options.mtu),
      pool_(kFramesPerQueue * options.queues, mtu_ + kEthernetOverhead) {
  for (std::uint16_t i = 0; i < options.queues; ++i) {
    queues_.push_back(std::make_unique<Queue>(segments));
  }
}

UdpPort::~UdpPort() = default;

Result<std::unique_ptr<Port>> UdpPort::open(const std::string& spec, const PortOptions& options) {
  const auto parsed = parse_udp_spec(spec);
  if (!parsed) {
    return parsed.error();
  }
  if (options.addresses.empty()) {
    return Error{EINVAL, "port udp: has no address: give it one of this machine with --ip"};
  }
  const std::uint32_t segments = parsed->segments != 0 ? parsed->segments : UdpSender::kSegmentsMax;
  PortOptions bounded = options;
  std::vector<std::uint32_t> scopes;
  for (const Gid& address : options.addresses) {
    const auto interface = host_interface_with(address);
    scopes.push_back(interface ? interface->index : 0);
    if (interface && interface->mtu >= kPortMtuMin) {
      bounded.mtu = std::min(bounded.mtu, interface->mtu);
    }
  }
  std::unique_ptr<UdpPort> port(new UdpPort(spec, bounded, segments));
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    if (Status status = port->add_address(options.addresses[i], scopes[i]); !status) {
      return status.error();
    }
  }
  return std::unique_ptr<Port>(std::move(port));
}

Status UdpPort::add_address(const Gid& address, std::uint32_t scope) {
  auto sockets = open_udp_sockets(address, scope, static_cast<std::uint16_t>(queues_.size()));
  if (!sockets) {
    return sockets.error();
  }
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Queue& queue = *queues_[i];
    const int descriptor = (*sockets)[i].get();
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    if (::epoll_ctl(queue.any_readable.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
      return system_error("port udp: can't wait for a socket");
    }
    queue.sender.add(descriptor, address, scope);
    queue.receivers.emplace_back(descriptor, address);
    queue.sockets.push_back(std::move((*sockets)[i]));
  }
  return ok();
}

std::uint32_t UdpPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::size_t sockets = self.receivers.size();
  const bool all = self.turns++ % kTurnsPerLook == 0;
  const std::size_t first = all ? self.turns / kTurnsPerLook : self.latest;
  std::uint32_t count = self.take_errors(pool_, frames, max);
  for (std::size_t i = 0; i < (all ? sockets : 1) && count < max; ++i) {
    const std::size_t at = (first + i) % sockets;
    const std::uint32_t some =
        self.receivers[at].take(pool_, frames + count, max - count, self.counters);
    self.latest = some > 0 ? at : self.latest;
    self.may_have_errors |= self.receivers[at].failed();
    count += some;
  }
  return count;
}

std::uint32_t UdpPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::uint32_t done = self.sender.send({frames, count}, self.counters);
  self.may_have_errors |= self.sender.failed();
  pool_.release(frames, done);
  if (done < count) {
    self.counters.refused(count - done);
  }
  return done;
}

std::uint32_t UdpPort::allocate(Frame** frames, std::uint32_t count) {
  return pool_.allocate(frames, count);
}

void UdpPort::release(Frame** frames, std::uint32_t count) { pool_.release(frames, count); }

PortInfo UdpPort::info() const {
  const auto interface = host_interface_with(address_);
  return {.name = spec_,
          .mac = stand_in_mac(address_),
          .mtu = mtu_,
          .queues = static_cast<std::uint16_t>(queues_.size()),
          .link_up = interface && interface->up,
          .any_mac = true,
          .resolves_itself = true,
          .turn_burst = UdpSender::kSegmentsMax};
}

PortCounters UdpPort::counters() const {
  PortCounters sum;
  for (const auto& queue : queues_) {
    queue->counters.add_to(&sum);
  }
  return sum;
}

int UdpPort::wait_descriptor(std::uint16_t queue) const {
  return queues_[queue]->any_readable.get();
}

bool UdpPort::arm_wait(std::uint16_t queue) {
  Queue& self = *queues_[queue];
  pollfd readable{.fd = self.any_readable.get(), .events = POLLIN, .revents = 0};
  const bool quiet = ::poll(&readable, 1, 0) == 0;
  // What wakes may be an error, which stays until it is taken.
  self.may_have_errors |= !quiet;
  return quiet && std::none_of(self.receivers.begin(), self.receivers.end(),
                               [](const UdpReceiver& receiver) { return receiver.holds_any(); });
}

}  // namespace uroce
