#include "control/sessions/card.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "control/ip/kernel_network.h"

namespace uroce::control {
namespace {

Time steady_clock() {
  return static_cast<Time>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count());
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Numbers::Numbers(std::uint32_t first, std::uint32_t count_max, std::uint64_t seed)
    : first_(first), count_max_(count_max) {
  // A daemon that starts again should not be taken for the one before by peers that didn't notice.
  std::mt19937_64 random(seed);
  next_ = static_cast<std::uint32_t>(random()) & 0xFF'FFFFU;
}

std::uint32_t Numbers::take(const Owner& owner, std::uint32_t chosen) {
  if (owners_.size() >= count_max_) {
    return 0;
  }
  if (chosen != 0) {
    const std::uint32_t slot = chosen & 0xFFFFU;
    const bool free = slot >= first_ && chosen < 0xFF'FFFFU && !owners_.contains(slot);
    if (free) {
      owners_[slot] = {chosen, owner};
    }
    return free ? chosen : 0;
  }
  for (;;) {
    const std::uint32_t number = next_;
    next_ = (next_ + 1) & 0xFF'FFFFU;
    const std::uint32_t slot = number & 0xFFFFU;
    // 0xFFFFFF is the multicast queue pair.
    if (slot >= first_ && number != 0xFF'FFFFU && !owners_.contains(slot)) {
      owners_[slot] = {number, owner};
      return number;
    }
  }
}

const Owner* Numbers::find(std::uint32_t number) const {
  const auto found = owners_.find(number & 0xFFFFU);
  return found != owners_.end() && found->second.number == number ? &found->second.owner : nullptr;
}

void Numbers::set_owner(std::uint32_t number, const Owner& owner) {
  owners_[number & 0xFFFFU].owner = owner;
}

Card::Card(Engine& engine, KeyTable& keys, const SealedMemory& status, std::uint64_t seed)
    : queue_bytes_session_max(std::min(kSessionQueueBytesMax, physical_memory() / 4)),
      queue_bytes_user_max(std::min(kUserQueueBytesMax, physical_memory() / 2)),
      qpns(kQpnMin, kQpsMax, seed),
      cqns(1, kCqsMax, seed + 1),
      srqns(1, kSrqsMax, seed + 2),
      gsi(engine),
      clock(steady_clock),
      connections(*this, seed + 3),
      engine_(engine),
      keys_(keys),
      status_(status) {}

MemoryAccount& Card::account_of(uid_t user) {
  return users_
      .try_emplace(user, "user " + std::to_string(user), queue_bytes_user_max,
                   queue_mappings_user_max)
      .first->second;
}

void Card::add_device(std::uint16_t port_index, Port& port, std::vector<IpPrefix> addresses,
                      const Identity& identity) {
  Device& device = devices_.emplace_back(port_index, port, std::move(addresses), identity,
                                         [this, port_index](std::span<const std::byte> frame) {
                                           engine_.send_frame(port_index, frame);
                                         });
  for (const LinkAddress& address : device.gids().addresses()) {
    if (const std::uint32_t netdev = interface_with(address.gid); netdev != 0) {
      device.set_netdev_index(netdev);
      break;
    }
  }
  tell_workers_addresses(device);
}

void Card::tell_workers_addresses(const Device& device) {
  const auto port = static_cast<std::uint16_t>(device.index());
  for (std::uint32_t worker = 0; worker < engine_.workers(); ++worker) {
    engine_.call(worker, [&](Worker& w) { w.set_addresses(port, device.gids().addresses()); });
  }
}

}  // namespace uroce::control
