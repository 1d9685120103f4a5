#pragma once

// The listeners, and the look-up of the one that a request is for.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "control/cm/events.h"
#include "control/cm/ip_service.h"
#include "control/cm/state.h"

namespace uroce::control::cm {

// The requests that a listener accepts. Of several that match, the most specific one gets the
// request: one with an address precedes one without, then one with a device, then one with a
// family.
struct Match {
  std::uint64_t service_id = 0;
  std::uint64_t service_mask = ~0ULL;
  std::optional<std::uint32_t> device = {};
  std::optional<Gid> address = {};  // the destination in the IP header (else: of the packet)
  enum class Family : std::uint8_t { kAny, kIpv4, kIpv6 } family = Family::kAny;
  auto operator<=>(const Match&) const = default;
};

struct Listener {
  ListenerId id = 0;
  Match match = {};
  std::uint64_t cookie = 0;
  std::uint32_t backlog = 0;
  std::uint32_t waiting = 0;  // requests that the program hasn't answered
};

class Listeners {
 public:
  // ENOMEM, EADDRINUSE
  Result<ListenerId> add(const Match& match, std::uint32_t backlog, std::uint64_t cookie);
  void remove(ListenerId id);

  [[nodiscard]] Listener* find(ListenerId id);
  // The most specific one that matches. `ip`: of the request, if its service has it.
  Listener* find(const Route& route, std::uint64_t service_id, const std::optional<IpHeader>& ip);
  [[nodiscard]] std::vector<ListenerInfo> infos() const;

 private:
  // Visits listeners that may match the service: all with a mask, and those that name it.
  template <typename Use>
  void for_each_candidate(std::uint64_t service_id, Use&& use);

  std::map<ListenerId, Listener> listeners_;
  std::unordered_multimap<std::uint64_t, ListenerId> by_service_;  // without a mask
  std::set<ListenerId> masked_;
  ListenerId next_ = 1;
};

}  // namespace uroce::control::cm
