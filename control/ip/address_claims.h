#pragma once

// Other hosts on the link that use an address of ours: two machines with one configuration file.
// Then peers reach either of them, so it is said in the log and kept for the status report.
//
// Anybody on the link can send claims at any rate. So there is at most one claim for each address
// that we have, the latest, and the log has a line per LineThrottle::kSilence at most. Sans-I/O;
// control thread only.

#include <algorithm>
#include <map>
#include <optional>

#include "base/time.h"
#include "base/time/line_throttle.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class AddressClaims {
 public:
  struct Claim {
    EtherAddress mac;
    Time heard = 0;     // the last time
    bool said = false;  // in the log, with this Ethernet address
  };

  // REQUIRES: we have `address`, and `mac` isn't ours.
  void heard(const Gid& address, const EtherAddress& mac, Time now) {
    Claim& claim = claims_[address];
    claim.said = claim.said && claim.mac == mac;
    claim.mac = mac;
    claim.heard = now;
  }
  // We don't have the address any more.
  void forget(const Gid& address) { claims_.erase(address); }
  void forget_all() { claims_.clear(); }

  [[nodiscard]] const Claim* find(const Gid& address) const {
    const auto found = claims_.find(address);
    return found == claims_.end() ? nullptr : &found->second;
  }
  // The address whose claim is to be logged now.
  std::optional<Gid> next_line(Time now) {
    const auto unsaid = std::find_if(claims_.begin(), claims_.end(),
                                     [](const auto& entry) { return !entry.second.said; });
    if (unsaid == claims_.end() || !lines_.is_due(now)) {
      return std::nullopt;
    }
    unsaid->second.said = true;
    return unsaid->first;
  }

 private:
  std::map<Gid, Claim> claims_;
  LineThrottle lines_;
};

}  // namespace uroce::control
