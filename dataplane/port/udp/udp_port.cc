#include "dataplane/port/udp/udp_port.h"

#include <algorithm>
#include <cerrno>

#include "dataplane/port/udp/udp_receive.h"
#include "dataplane/port/udp/udp_send.h"
#include "dataplane/port/udp/udp_socket.h"
#include "dataplane/port/udp/udp_spec.h"
#include "dataplane/port/udp/udp_wait.h"
#include "dataplane/wire/path_mtu.h"

namespace uroce {
namespace {

// Determined by the first address at the start, but no stand_in_mac(): another host may have that
// address later, and what is sent to the port's own Ethernet address stays here.
EtherAddress mac_named_by(const Gid& first_address) {
  EtherAddress mac = stand_in_mac(first_address);
  mac.bytes[0] = 0x02;
  return mac;
}

// Polling an empty socket costs a system call: of several sockets, only the one that last delivered
// data is polled every turn.
constexpr std::uint32_t kTurnsPerLook = 4;

// Bytes each way in a turn: fits in a second-level cache with other data.
constexpr std::uint32_t kTurnBytes = 400'000;

// Only addresses of fe80::/10 need an interface.
bool needs_scope(const Gid& gid) { return gid.bytes[0] == 0xFE && (gid.bytes[1] & 0xC0U) == 0x80; }

}  // namespace

// The state of one worker: a socket for each address.
struct UdpPort::Queue {
  explicit Queue(std::uint32_t segments) : sender(segments) {}

  std::uint32_t take_errors(FramePool& pool, Frame** frames, std::uint32_t max) {
    std::uint32_t count = 0;
    if (may_have_errors) [[unlikely]] {
      for (const auto& receiver : receivers) {
        count += receiver->take_errors(pool, frames + count, max - count);
      }
      may_have_errors = count == max;
    }
    return count;
  }

  void add(const Gid& address, std::uint32_t scope, UniqueFd socket) {
    wait.add(socket.get());
    sender.add(socket.get(), address, scope);
    receivers.push_back(std::make_unique<UdpReceiver>(socket.get(), address));
    sockets.push_back(std::move(socket));
  }

  void remove(const Gid& address) {
    sender.remove(address);
    for (std::size_t i = 0; i < receivers.size(); ++i) {
      if (receivers[i]->address() == address) {
        wait.remove(sockets[i].get());
        receivers.erase(receivers.begin() + static_cast<std::ptrdiff_t>(i));
        sockets.erase(sockets.begin() + static_cast<std::ptrdiff_t>(i));
        latest = 0;
        return;
      }
    }
  }

  UdpSender sender;
  std::vector<std::unique_ptr<UdpReceiver>> receivers;  // one per socket
  std::vector<UniqueFd> sockets;
  std::uint32_t turns = 0;
  std::size_t latest = 0;        // the receiver that last delivered data
  bool may_have_errors = false;  // sockets' error queues may not be empty
  UdpWait wait;
  QueueCounters counters;
};

UdpPort::UdpPort(std::string spec, std::string interface, const PortOptions& options,
                 std::uint32_t segments)
    : spec_(std::move(spec)),
      interface_(std::move(interface)),
      mac_(mac_named_by(options.addresses.front())),
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
  for (const Gid& address : options.addresses) {
    const auto interface = host_interface_with(address);
    if (interface && interface->mtu >= kPortMtuMin) {
      bounded.mtu = std::min(bounded.mtu, interface->mtu);
    }
  }
  std::unique_ptr<UdpPort> port(new UdpPort(spec, parsed->interface, bounded, segments));
  for (const Gid& address : options.addresses) {
    if (Status status = port->open_address(address); !status) {
      return status.error();
    }
    for (std::uint16_t queue = 0; queue < options.queues; ++queue) {
      port->take_over(queue);
    }
  }
  return std::unique_ptr<Port>(std::move(port));
}

std::optional<HostInterface> UdpPort::interface_of(const Gid& address) const {
  return interface_.empty() ? host_interface_with(address) : host_interface(interface_);
}

Status UdpPort::open_address(const Gid& address) {
  const auto interface = interface_of(address);
  const std::uint32_t scope = interface ? interface->index : 0;
  auto sockets = open_udp_sockets(address, scope, static_cast<std::uint16_t>(queues_.size()));
  if (!sockets) {
    return sockets.error();
  }
  change_ = {.address = address, .scope = scope, .sockets = std::move(*sockets)};
  addresses_.push_back(address);
  return ok();
}

void UdpPort::close_address(const Gid& address) {
  change_ = {.address = address, .scope = 0, .sockets = {}};
  std::erase(addresses_, address);
}

void UdpPort::take_over(std::uint16_t queue) {
  if (change_.sockets.empty()) {
    queues_[queue]->remove(change_.address);
  } else {
    queues_[queue]->add(change_.address, change_.scope, std::move(change_.sockets[queue]));
  }
}

std::uint32_t UdpPort::mtu_to(const Gid& source, const Gid& peer) const {
  const auto interface = needs_scope(peer) ? interface_of(source) : std::nullopt;
  return std::min(mtu_, host_mtu_to(source, peer, interface ? interface->index : 0));
}

std::uint32_t UdpPort::rx_burst(std::uint16_t queue, Frame** frames, std::uint32_t max,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::size_t sockets = self.receivers.size();
  if (sockets == 0) {
    return 0;  // the interface has lost all its addresses
  }
  const bool all = self.turns++ % kTurnsPerLook == 0;
  const std::size_t first = all ? self.turns / kTurnsPerLook : self.latest;
  std::uint32_t count = self.take_errors(pool_, frames, max);
  for (std::size_t i = 0; i < (all ? sockets : 1) && count < max; ++i) {
    const std::size_t at = (first + i) % sockets;
    const std::uint32_t some =
        self.receivers[at]->take(pool_, frames + count, max - count, self.counters);
    self.latest = some > 0 ? at : self.latest;
    self.may_have_errors |= self.receivers[at]->failed();
    count += some;
  }
  if (count > 0) {
    self.wait.burst();
  }
  return count;
}

std::uint32_t UdpPort::tx_burst(std::uint16_t queue, Frame** frames, std::uint32_t count,
                                Time /*now*/) {
  Queue& self = *queues_[queue];
  const std::uint32_t done = self.sender.send({frames, count}, self.counters);
  self.may_have_errors |= self.sender.failed();
  self.wait.burst();
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

// The link of the first usable address; otherwise of the first.
UdpPort::Link UdpPort::link() const {
  const auto of = [this](const std::string& name, const std::optional<HostInterface>& interface) {
    return Link{.trouble = interface_trouble(name, interface, packet_bytes_max(mtu_)),
                .speed_mbps = interface ? interface->speed_mbps : 0};
  };
  if (!interface_.empty()) {
    return of(interface_, host_interface(interface_));
  }
  std::optional<Link> first;
  for (const Gid& address : addresses_) {
    const auto interface = host_interface_with(address);
    Link link = interface ? of(interface->name, interface)
                          : Link{.trouble = "no interface of this machine has the address " +
                                            to_string(address) +
                                            " (`ip address add ... dev NAME`, or name "
                                            "another address)"};
    if (link.trouble.empty()) {
      return link;
    }
    first = first.value_or(link);
  }
  return first.value_or(Link{.trouble = "the port has no address: give it one of this machine"});
}

PortInfo UdpPort::info() const {
  const Link at = link();
  return {
      .name = spec_,
      .mac = mac_,
      .mtu = mtu_,
      .queues = static_cast<std::uint16_t>(queues_.size()),
      .link_up = at.trouble.empty(),
      .trouble = at.trouble,
      .on_interface = true,
      .speed_mbps = at.speed_mbps,
      .any_mac = true,
      .resolves_itself = true,
      .turn_burst = UdpSender::kSegmentsMax,
      .turn_bursts = std::clamp(kTurnBytes / (UdpSender::kSegmentsMax * mtu_), 1U, kTurnBurstsMax)};
}

PortCounters UdpPort::counters() const {
  PortCounters sum;
  for (const auto& queue : queues_) {
    queue->counters.add_to(&sum);
  }
  return sum;
}

int UdpPort::wait_descriptor(std::uint16_t queue) const {
  return queues_[queue]->wait.descriptor();
}

bool UdpPort::arm_wait(std::uint16_t queue) {
  Queue& self = *queues_[queue];
  const bool quiet = self.wait.arm();
  // The wake-up may be due to an error, which remains until it is read.
  self.may_have_errors |= !quiet;
  return quiet && std::none_of(self.receivers.begin(), self.receivers.end(),
                               [](const auto& receiver) { return receiver->holds_any(); });
}

void UdpPort::disarm_wait(std::uint16_t queue) { queues_[queue]->wait.disarm(); }

}  // namespace uroce
