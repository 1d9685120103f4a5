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

// An address may move from one interface to another, so all lose theirs before any gets one. The
// kernel reports a change once, so after a check that failed nothing else comes of it.
void AddressFollower::check_again() {
  next_check_ = card_.now() + kRetryInterval;  // also if memory runs out
  std::vector<std::optional<std::vector<IpPrefix>>> listed;
  for (Followed& followed : followed_) {
    listed.push_back(list(followed));
    if (listed.back()) {
      drop_lost(followed, *listed.back());
    }
  }
  bool complete = true;
  for (std::size_t i = 0; i < followed_.size(); ++i) {
    complete = listed[i] && add_new(followed_[i], *listed[i]) && complete;
  }
  if (complete) {
    next_check_ = kNever;
  }
}

// Nothing: the addresses can't be listed, and stay as they are.
std::optional<std::vector<IpPrefix>> AddressFollower::list(Followed& followed) {
  const auto listed = interface_addresses(followed.interface);
  if (listed) {
    return *listed;
  }
  if (listed.error().code == ENODEV || listed.error().code == EADDRNOTAVAIL) {
    return std::vector<IpPrefix>{};
  }
  if (followed.failed_lines.is_due(card_.now())) {
    spdlog::warn("{}: the addresses of {} can't be listed, and are looked at again in {} s: {}",
                 card_.devices()[followed.device].name(), followed.interface,
                 kRetryInterval / kNanosecondsPerSecond, listed.error().message);
  }
  return std::nullopt;
}

// A link-local address is bound to its interface, which may have been recreated.
void AddressFollower::drop_lost(Followed& followed, const std::vector<IpPrefix>& now) {
  Device& device = card_.devices()[followed.device];
  const auto found = host_interface(followed.interface);
  const std::uint32_t index = found ? found->index : 0;
  const bool another = std::exchange(followed.index, index) != index;
  const std::vector<IpPrefix> before = device.gids().entries();
  for (const IpPrefix& entry : before) {
    const bool stays = has(now, entry.address) && !(another && is_link_local(entry.address));
    if (entry.address.is_zero() || stays) {
      continue;
    }
    if (Status status = remove_address(card_, kernel_, device, entry.address); status) {
      spdlog::info("{}: {} has lost the address {}", device.name(), followed.interface,
                   to_string(entry.address));
    } else {
      spdlog::warn("{}: {}", device.name(), status.error().message);
    }
  }
}

// False if one of them couldn't be added; the log has it once, not at each try.
bool AddressFollower::add_new(Followed& followed, const std::vector<IpPrefix>& now) {
  Device& device = card_.devices()[followed.device];
  std::vector<Gid> refused;
  for (const IpPrefix& entry : now) {
    if (device.gids().owns(entry.address)) {
      continue;
    }
    Status status = add_address(card_, kernel_, device, entry);
    if (status) {
      spdlog::info("{}: {} has got the address {}", device.name(), followed.interface,
                   to_string(entry));
      continue;
    }
    refused.push_back(entry.address);
    const auto& known = followed.refused;
    if (std::find(known.begin(), known.end(), entry.address) == known.end()) {
      spdlog::warn("{}: can't add the address {} of {}, which is tried again every {} s: {}",
                   device.name(), to_string(entry), followed.interface,
                   kRetryInterval / kNanosecondsPerSecond, status.error().message);
    }
  }
  followed.refused = std::move(refused);
  return followed.refused.empty();
}

}  // namespace uroce::control
