#pragma once

// Other hosts on the link that use an address of ours: two machines with one configuration file.
// Then peers reach either of them, so it is said in the log and kept for the status report.
//
// Anybody on the link can send claims at any rate. So there is at most one claim for each address
// that we have, the latest; the log has a line per LineThrottle::kSilence at most, and addresses
// take turns. Sans-I/O; control thread only.

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/time.h"
#include "base/time/line_throttle.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class AddressClaims {
 public:
  // A claim that is older has ended: the other host may have another address now. (One that only
  // answers isn't heard: its answers go to others.)
  static constexpr Duration kHeardFor = Duration{10} * 60 * kNanosecondsPerSecond;

  // An address is announced to those who claim it no more often (RFC 5227, DEFEND_INTERVAL): else
  // three hosts with one address would answer each other without end.
  static constexpr Duration kToldEvery = 10 * kNanosecondsPerSecond;

  struct Claim {
    EtherAddress mac;
    Time heard = 0;     // the last time
    bool said = false;  // in the log, with this Ethernet address
    Time said_at = 0;   // when the log had this address last; 0: never
    bool told = false;  // whether this Ethernet address was told that we have the address
    Time told_at = 0;   // when one was told last
  };

  // REQUIRES: we have `address`, and `mac` isn't ours. True: that host is to be told now that we
  // have the address.
  bool heard(const Gid& address, const EtherAddress& mac, Time now) {
    const bool is_first = find(address, now) == nullptr;
    Claim& claim = claims_[address];
    if (is_first || claim.mac != mac) {
      claim.said = false;
      claim.told = false;
    }
    claim.mac = mac;
    claim.heard = now;
    if (claim.told || (!is_first && now < claim.told_at + kToldEvery)) {
      return false;
    }
    claim.told = true;
    claim.told_at = now;
    return true;
  }
  // We don't have the address any more.
  void forget(const Gid& address) { claims_.erase(address); }
  void forget_all() { claims_.clear(); }

  [[nodiscard]] const Claim* find(const Gid& address, Time now) const {
    const auto found = claims_.find(address);
    const bool is_current = found != claims_.end() && now <= found->second.heard + kHeardFor;
    return is_current ? &found->second : nullptr;
  }
  // What is to be logged now: of the address that the log hasn't had for longest.
  struct Line {
    Gid address;
    EtherAddress mac;
  };
  std::optional<Line> next_line(Time now) {
    const auto unsaid =
        std::min_element(claims_.begin(), claims_.end(), [](const auto& one, const auto& other) {
          return std::pair(one.second.said, one.second.said_at) <
                 std::pair(other.second.said, other.second.said_at);
        });
    if (unsaid == claims_.end() || unsaid->second.said || !lines_.is_due(now)) {
      return std::nullopt;
    }
    unsaid->second.said = true;
    unsaid->second.said_at = now;
    return Line{unsaid->first, unsaid->second.mac};
  }

  // When next_line() has something; kNever: all is said.
  [[nodiscard]] Time next_deadline() const {
    const bool all_said = std::all_of(claims_.begin(), claims_.end(),
                                      [](const auto& entry) { return entry.second.said; });
    return all_said ? kNever : lines_.next();
  }

 private:
  std::map<Gid, Claim> claims_;
  LineThrottle lines_;
};

}  // namespace uroce::control
