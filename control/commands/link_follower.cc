#include "control/commands/link_follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "control/commands/address_changes.h"
#include "control/sessions/neighbour_changes.h"
#include "dataplane/qp/turn.h"

namespace uroce::control {
namespace {

// No driver needs faster polling, and an idle daemon shouldn't wake up often.
constexpr Duration kLinkCheckInterval = 100 * kNanosecondsPerMillisecond;
// If opening an existing interface fails, it is retried at growing intervals, since drivers print a
// line or two each time, and whenever the kernel reports a change.
constexpr Duration kAttachIntervalMin = kNanosecondsPerSecond;
constexpr Duration kAttachIntervalMax = 64 * kNanosecondsPerSecond;

}  // namespace

LinkFollower::LinkFollower(Card& card)
    : card_(card), untold_(card.devices().size()), attach_interval_(kAttachIntervalMin) {
  const auto& devices = card.devices();
  if (std::any_of(devices.begin(), devices.end(),
                  [](const Device& device) { return device.port().info().on_interface; })) {
    // A udp port's link is its addresses' interfaces, so it goes with the last address.
    if (auto watch = KernelWatch::open(KernelWatch::Of::kLinksAndAddresses)) {
      watch_ = std::move(*watch);
    } else {
      spdlog::warn("{}: links are checked at intervals instead", watch.error().message);
    }
  }
  check();
}

void LinkFollower::on_change() {
  watch_->drain();
  check_all(true);
}

void LinkFollower::check() {
  const bool addresses_changed = address_changes_ != card_.address_changes();
  const bool due = card_.now() >= next_attach_;
  if (due) {
    next_attach_ = card_.now() + attach_interval_;
    attach_interval_ = std::min(2 * attach_interval_, kAttachIntervalMax);
  }
  check_all(due || addresses_changed || !watch_);
}

// If memory runs out before all are checked, they are checked again, in the same way.
void LinkFollower::check_all(bool attaches) {
  attaches = attaches || attaches_;
  attaches_ = attaches;
  address_changes_ = card_.address_changes();
  next_check_ = card_.now() + kLinkCheckInterval;
  Time next = kNever;
  for (Device& device : card_.devices()) {
    if (!device.loops_back()) {
      next = std::min(next, check(device, attaches));
    }
  }
  next_check_ = next;
  attaches_ = false;
}

// `attaches`: tries to reopen interfaces that are down. Returns when to check this one again.
Time LinkFollower::check(Device& device, bool attaches) {
  const bool on_interface = device.port().info().on_interface;
  if (on_interface && !device.link_up() && attaches) {
    if (!device.port().info().trouble.empty()) {
      detach(device);  // from an interface that was replaced as soon as it was attached
    }
    attach(device);
  }
  const auto change = device.link_change();
  if (change) {
    follow(device, *change);
    device.note_link(*change);
  }
  // An interface that was recreated between two checks has seemed to be up all the time: it is
  // reported as down, and up again at once.
  if (on_interface && change == false) {
    attach(device);
    if (const auto up = device.link_change()) {
      follow(device, *up);
      device.note_link(*up);
    }
  }
  if (!watch_ || !on_interface) {
    return card_.now() + kLinkCheckInterval;
  }
  return device.link_up() ? kNever : next_attach_;
}

// A link change is an event for every program that has the device open.
void LinkFollower::follow(Device& device, bool up) {
  if (up) {
    spdlog::info("{}: the link is up", device.name());
    device.ask_again(card_.now());
  } else {
    const std::string trouble = device.port().info().trouble;
    spdlog::warn("{}: the link is down{}{}", device.name(), trouble.empty() ? "" : ": ", trouble);
    attach_interval_ = kAttachIntervalMin;
    next_attach_ = card_.now() + attach_interval_;
    detach(device);
  }
  card_.announce(device,
                 static_cast<std::uint32_t>(up ? AsyncEvent::kPortActive : AsyncEvent::kPortErr));
}

void LinkFollower::detach(Device& device) {
  if (device.port().detach()) {
    untold_[device.index()] = true;
  }
  tell_workers(device);
}

// If memory runs out in here, what is left to do is done when links are checked again.
void LinkFollower::attach(Device& device) {
  attaches_ = true;
  tell_workers(device);  // that it was detached, if memory ran out then
  const auto attached = device.port().attach();
  if (!attached) {
    return;  // the reason is in PortInfo::trouble
  }
  if (*attached) {
    untold_[device.index()] = true;
    Card::follow_interface(device);
  }
  tell_workers(device);
  if (const auto mac = device.mac_change()) {
    spdlog::info("{}: the Ethernet address is {} now", device.name(), to_string(*mac));
    device.follow_mac(*mac);
    follow_own_mac(card_, device, *mac);
    card_.follow_addresses(device);
    card_.announce(device, kGidChange);
    device.note_mac(*mac);
  }
}

// It interrupts all workers, so only those who don't know yet are told: while a port is down, each
// change of any interface gets here.
void LinkFollower::tell_workers(const Device& device) {
  if (!untold_[device.index()]) {
    return;
  }
  const auto port = static_cast<std::uint16_t>(device.index());
  const PortInfo info = device.port().info();  // makes system calls, which workers don't
  for (std::uint32_t worker = 0; worker < card_.engine().workers(); ++worker) {
    card_.engine().call(worker, [port, &info](Worker& w) { w.update_port(port, info); });
  }
  untold_[device.index()] = false;
}

}  // namespace uroce::control
