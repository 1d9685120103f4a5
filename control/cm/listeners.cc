#include "control/cm/listeners.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "control/cm/limits.h"

namespace uroce::control::cm {
namespace {

constexpr std::uint64_t kWholeService = ~0ULL;

bool matches(const Match& match, const Route& route, std::uint64_t service_id,
             const Gid& destination) {
  const bool ipv4 = destination.is_ipv4();
  const bool family_right =
      match.family == Match::Family::kAny || (match.family == Match::Family::kIpv4) == ipv4;
  return (service_id & match.service_mask) == (match.service_id & match.service_mask) &&
         (!match.device || *match.device == route.device) &&
         (!match.address || *match.address == destination) && family_right;
}

// Greater is more specific.
unsigned weight(const Match& match) {
  return (match.address ? 8U : 0U) + (match.device ? 4U : 0U) +
         (match.service_mask == kWholeService ? 2U : 0U) +
         (match.family != Match::Family::kAny ? 1U : 0U);
}

}  // namespace

Result<ListenerId> Listeners::add(const Match& match, std::uint32_t backlog, std::uint64_t cookie) {
  if (listeners_.size() >= kListenersMax) {
    return Error{ENOMEM, "at most " + std::to_string(kListenersMax) + " listeners (kListenersMax)"};
  }
  bool taken = false;
  for_each_candidate(match.service_id,
                     [&](const Listener& listener) { taken = taken || listener.match == match; });
  if (taken) {
    return Error{EADDRINUSE, "somebody listens there already"};
  }
  const auto bound = static_cast<std::uint32_t>(
      backlog == 0 ? kBacklogDefault : std::min<std::size_t>(backlog, kBacklogMax));
  const ListenerId id = next_++;
  listeners_[id] =
      Listener{.id = id, .match = match, .cookie = cookie, .backlog = bound, .waiting = 0};
  if (match.service_mask == kWholeService) {
    by_service_.emplace(match.service_id, id);
  } else {
    masked_.insert(id);
  }
  return id;
}

void Listeners::remove(ListenerId id) {
  const auto at = listeners_.find(id);
  if (at == listeners_.end()) {
    return;
  }
  const auto named = by_service_.equal_range(at->second.match.service_id);
  const auto entry =
      std::find_if(named.first, named.second, [id](const auto& one) { return one.second == id; });
  if (entry != named.second) {
    by_service_.erase(entry);
  }
  masked_.erase(id);
  listeners_.erase(at);
}

template <typename Use>
void Listeners::for_each_candidate(std::uint64_t service_id, Use&& use) {
  const auto named = by_service_.equal_range(service_id);
  for (auto at = named.first; at != named.second; ++at) {
    use(listeners_.at(at->second));
  }
  for (const ListenerId id : masked_) {
    use(listeners_.at(id));
  }
}

Listener* Listeners::find(ListenerId id) {
  const auto at = listeners_.find(id);
  return at == listeners_.end() ? nullptr : &at->second;
}

Listener* Listeners::find(const Route& route, std::uint64_t service_id,
                          const std::optional<IpHeader>& ip) {
  const Gid& destination = ip ? ip->destination : route.local;
  Listener* best = nullptr;
  for_each_candidate(service_id, [&](Listener& listener) {
    if (matches(listener.match, route, service_id, destination) &&
        (best == nullptr || weight(listener.match) > weight(best->match))) {
      best = &listener;
    }
  });
  return best;
}

std::vector<ListenerInfo> Listeners::infos() const {
  std::vector<ListenerInfo> infos;
  for (const auto& [id, listener] : listeners_) {
    infos.push_back({.id = id,
                     .service_id = listener.match.service_id,
                     .address = listener.match.address,
                     .device = listener.match.device,
                     .cookie = listener.cookie,
                     .backlog = listener.backlog,
                     .waiting = listener.waiting});
  }
  return infos;
}

}  // namespace uroce::control::cm
