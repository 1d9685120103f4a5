#pragma once

// Keeps the addresses of ports that follow an interface (udp,iface=NAME) in step with it. Control
// thread only.

#include <optional>
#include <string>
#include <vector>

#include "base/time/line_throttle.h"
#include "control/ip/addresses/gid_table.h"
#include "control/ip/kernel/interface_addresses.h"
#include "control/ip/kernel/kernel_addresses.h"
#include "control/ip/kernel/kernel_watch.h"
#include "control/sessions/card.h"
#include "dataplane/qp/turn.h"

namespace uroce::control {

class AddressFollower {
 public:
  // Card and kernel outlive this.
  static Result<AddressFollower> open(Card& card, KernelAddresses& kernel);

  // Makes the device with this index follow the interface's addresses.
  void follow(std::uint32_t device, std::string interface);
  [[nodiscard]] bool follows_any() const { return !followed_.empty(); }

  // Readable: call on_change().
  [[nodiscard]] int descriptor() const { return watch_.descriptor(); }
  void on_change();
  // When check_again() is due: a listing failed, or an address couldn't be added. kNever: all went
  // well.
  [[nodiscard]] Time next_check() const { return next_check_; }
  void check_again();

 private:
  struct Followed {
    std::uint32_t device;
    std::string interface;
    std::uint32_t index = 0;  // ifindex at the last check; 0: none
    LineThrottle failed_lines = {};
    std::vector<Gid> refused = {};  // addresses of it that couldn't be added, which the log has
  };
  AddressFollower(Card& card, KernelAddresses& kernel, KernelWatch watch)
      : card_(card), kernel_(kernel), watch_(std::move(watch)) {}
  std::optional<std::vector<IpPrefix>> list(Followed& followed);
  void drop_lost(Followed& followed, const std::vector<IpPrefix>& now);
  bool add_new(Followed& followed, const std::vector<IpPrefix>& now);

  Card& card_;
  KernelAddresses& kernel_;
  KernelWatch watch_;
  std::vector<Followed> followed_;
  Time next_check_ = kNever;
};

}  // namespace uroce::control
