#include "control/sessions/card.h"

#include <cstdint>
#include <random>
#include <utility>

#include "base/time/monotonic_clock.h"
#include "control/ip/kernel/kernel_network.h"
#include "control/ip/limits.h"
#include "control/sessions/card_limits.h"
#include "control/sessions/session.h"

namespace uroce::control {
namespace {

constexpr std::uint32_t kPortNumber = 1;

// The kernel never gives an index of a device twice. Two starts of the daemon have the same by a
// chance of one in 134 million, since all bits but those that count the devices are random.
std::uint32_t choose_first_instance() {
  constexpr std::uint32_t kStarts = INT32_MAX / kDevicesMax;
  std::random_device random;
  return std::uniform_int_distribution<std::uint32_t>(1, kStarts - 1)(random) * kDevicesMax;
}

}  // namespace

Card::Card(Engine& engine, KeyTable& keys, const SealedMemory& status, std::uint64_t seed)
    : engine_(engine),
      keys_(keys),
      status_(status),
      clock_(monotonic_now),
      first_instance_(choose_first_instance()),
      qpns_(kQpnMin, kQpsMax, seed),
      cqns_(1, kCqsMax, seed + 1),
      srqns_(1, kSrqsMax, seed + 2),
      groups_(engine),
      xrc_domains_(engine.workers()) {}

void Card::add_device(std::uint16_t port_index, Port& port, std::vector<IpPrefix> addresses,
                      Identity identity) {
  identity.instance = first_instance_ + port_index;
  Device& device = devices_.emplace_back(port_index, port, std::move(addresses), identity,
                                         [this, port_index](std::span<const std::byte> frame) {
                                           engine_.send_frame(port_index, frame);
                                         });
  follow_addresses(device);
}

void Card::follow_interface(Device& device) {
  std::uint32_t netdev = 0;
  for (const LinkAddress& address : device.gids().addresses()) {
    netdev = netdev != 0 ? netdev : interface_with(address.gid);
  }
  device.set_netdev_index(netdev);
}

void Card::follow_addresses(Device& device) {
  ++address_changes_;
  follow_interface(device);
  const auto port = static_cast<std::uint16_t>(device.index());
  for (std::uint32_t worker = 0; worker < engine_.workers(); ++worker) {
    engine_.call(worker, [&](Worker& w) { w.set_addresses(port, device.gids().addresses()); });
  }
}

void Card::announce(const Device& device, std::uint32_t event) {
  for (const auto& [id, session] : sessions_) {
    if (session->device() == &device) {
      session->announce(event, kPortNumber, 0);
    }
  }
}

Session* Card::find_session(std::uint64_t id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

void Card::enter(Session& session) { sessions_[session.id()] = &session; }

void Card::leave(const Session& session) { sessions_.erase(session.id()); }

const Peer* Card::owner_of_qp(std::uint32_t qpn) const {
  const Owner* owner = qpns_.find(qpn);
  return owner == nullptr ? nullptr : &owner->session->peer();
}

}  // namespace uroce::control
