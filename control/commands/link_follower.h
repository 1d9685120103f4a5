#pragma once

// Follows the link state of the ports: notifies programs (PORT_ERR, PORT_ACTIVE), logs each change
// once, and reopens a port whose kernel interface has come back. Changes of kernel interfaces are
// reported by rtnetlink; other links, and a missing interface, are polled. Links are checked, too,
// when a port's addresses were changed, since the link of a udp port is that of its addresses.
// Control thread only.

#include <optional>
#include <string>
#include <vector>

#include "control/ip/kernel/kernel_watch.h"
#include "control/sessions/card.h"

namespace uroce::control {

class LinkFollower {
 public:
  // The card outlives this.
  explicit LinkFollower(Card& card);

  // Readable: call on_change(). -1: rtnetlink isn't available.
  [[nodiscard]] int descriptor() const { return watch_ ? watch_->descriptor() : -1; }
  void on_change();
  // kNever: no link needs polling.
  [[nodiscard]] Time next_check() const {
    return address_changes_ == card_.address_changes() ? next_check_ : 0;
  }
  void check();

 private:
  void check_all(bool attaches);
  [[nodiscard]] Time check(Device& device, bool attaches);
  void follow(Device& device, bool up);
  void detach(Device& device);
  void attach(Device& device);
  void tell_workers(const Device& device);

  Card& card_;
  // By device: its port was detached or attached, and perhaps not all workers know: memory may run
  // out while they are told.
  std::vector<bool> untold_;
  std::optional<KernelWatch> watch_;
  std::uint64_t address_changes_ = 0;  // of the card's, those that were checked
  Time next_check_ = kNever;
  bool attaches_ = false;     // until a check that attaches is complete: memory may run out in it
  Time next_attach_ = 0;      // when interfaces that are down are retried without a kernel event
  Duration attach_interval_;  // the interval until the next retry after that
};

}  // namespace uroce::control
