#include "control/commands/address_follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "control/commands/address_changes.h"

namespace uroce::control {
namespace {

bool has(const std::vector<IpPrefix>& all, const Gid& address) {
  return std::any_of(all.begin(), all.end(),
                     [&](const IpPrefix& one) { return one.address == address; });
}

}  // namespace

Result<AddressFollower> AddressFollower::open(Card& card, KernelAddresses& kernel) {
  auto watch = AddressWatch::open();
  if (!watch) {
    return watch.error();
  }
  return AddressFollower(card, kernel, std::move(*watch));
}

void AddressFollower::on_change() {
  watch_.drain();
  for (const Followed& followed : followed_) {
    look(card_.devices()[followed.device], followed.interface);
  }
}

void AddressFollower::look(Device& device, const std::string& interface) {
  const auto listed = interface_addresses(interface);
  const std::vector<IpPrefix> now = listed ? *listed : std::vector<IpPrefix>{};
  const std::vector<IpPrefix> before = device.gids().entries();
  for (const IpPrefix& entry : before) {
    if (entry.address.is_zero() || has(now, entry.address)) {
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
    if (has(before, entry.address)) {
      continue;
    }
    if (Status status = add_address(card_, kernel_, device, entry); status) {
      spdlog::info("{}: {} has got the address {}", device.name(), interface, to_string(entry));
    } else {
      spdlog::warn("{}: can't take the address {} that {} has got: {}", device.name(),
                   to_string(entry), interface, status.error().message);
    }
  }
}

}  // namespace uroce::control
