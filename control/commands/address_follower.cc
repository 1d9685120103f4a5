#include "control/commands/address_follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "control/commands/address_changes.h"
#include "dataplane/port/host_interface.h"

namespace uroce::control {
namespace {

constexpr Duration kRetryInterval = 5 * kNanosecondsPerSecond;

bool has(const std::vector<IpPrefix>& all, const Gid& address) {
  return std::any_of(all.begin(), all.end(),
                     [&](const IpPrefix& one) { return one.address == address; });
}

}  // namespace

Result<AddressFollower> AddressFollower::open(Card& card, KernelAddresses& kernel) {
  auto watch = KernelWatch::open(KernelWatch::Of::kAddresses);
  if (!watch) {
    return watch.error();
  }
  return AddressFollower(card, kernel, std::move(*watch));
}

void AddressFollower::follow(std::uint32_t device, std::string interface) {
  const auto found = host_interface(interface);
  followed_.push_back(
      {.device = device, .interface = std::move(interface), .index = found ? found->index : 0});
}

void AddressFollower::on_change() {
  watch_.drain();
  check_again();
}

// The kernel reports a change once, so after a listing that failed nothing else comes of it.
void AddressFollower::check_again() {
  next_check_ = card_.now() + kRetryInterval;  // also if memory runs out
  bool listed = true;
  for (Followed& followed : followed_) {
    listed = check(followed) && listed;
  }
  if (listed) {
    next_check_ = kNever;
  }
}

// False: the addresses can't be listed, and stay as they are. A link-local address is bound to its
// interface, which may have been recreated.
bool AddressFollower::check(Followed& followed) {
  Device& device = card_.devices()[followed.device];
  const std::string& interface = followed.interface;
  const auto listed = interface_addresses(interface);
  if (!listed && listed.error().code != ENODEV && listed.error().code != EADDRNOTAVAIL) {
    if (followed.failed_lines.is_due(card_.now())) {
      spdlog::warn("{}: the addresses of {} can't be listed, and are looked at again in {} s: {}",
                   device.name(), interface, kRetryInterval / kNanosecondsPerSecond,
                   listed.error().message);
    }
    return false;
  }
  const auto found = host_interface(interface);
  const std::uint32_t index = found ? found->index : 0;
  const bool another = std::exchange(followed.index, index) != index;
  const std::vector<IpPrefix> now = listed ? *listed : std::vector<IpPrefix>{};
  const std::vector<IpPrefix> before = device.gids().entries();
  for (const IpPrefix& entry : before) {
    const bool stays = has(now, entry.address) && !(another && is_link_local(entry.address));
    if (entry.address.is_zero() || stays) {
      continue;
    }
    if (Status status = remove_address(card_, kernel_, device, entry.address); status) {
      spdlog::info("{}: {} has lost the address {}", device.name(), interface,
                   to_string(entry.address));
    } else {
      spdlog::warn("{}: {}", device.name(), status.error().message);
    }
  }
  for (const IpPrefix& entry : now) {
    if (device.gids().owns(entry.address)) {
      continue;
    }
    if (Status status = add_address(card_, kernel_, device, entry); status) {
      spdlog::info("{}: {} has got the address {}", device.name(), interface, to_string(entry));
    } else {
      spdlog::warn("{}: can't add the address {} of {}: {}", device.name(), to_string(entry),
                   interface, status.error().message);
    }
  }
  return true;
}

}  // namespace uroce::control
