#include "control/cm/requests.h"

#include "control/cm/limits.h"

namespace uroce::control::cm {
namespace {

// Half of what others leave of `room`, at least one place.
bool has_share(std::uint32_t own, std::uint32_t all, std::uint32_t room) {
  return own < (room - (all - own) + 1) / 2;
}

}  // namespace

std::uint32_t Requests::count(ListenerId id, const Sender& sender) const {
  const auto at = counts_.find({id, sender});
  return at == counts_.end() ? 0 : at->second;
}

Requests::Admission Requests::admission(const Listener& listener, const Route& route) const {
  const Sender sender(route);
  if (waiting_ >= kUnansweredMax) {
    return Admission::kAllFull;
  }
  if (listener.waiting >= listener.backlog) {
    return Admission::kBacklogFull;
  }
  const bool share = has_share(count(listener.id, sender), listener.waiting, listener.backlog) &&
                     has_share(count(kAll, sender), waiting_, kUnansweredMax);
  return share ? Admission::kAdmitted : Admission::kShareTaken;
}

std::uint32_t Requests::add(Listener* listener, const Route& route) {
  const Sender sender(route);
  // These may throw, so nothing is counted before.
  std::uint32_t& of_listener = counts_[{listener->id, sender}];
  std::uint32_t& of_all = counts_[{kAll, sender}];
  ++listener->waiting;
  ++waiting_;
  ++of_all;
  return of_listener++;
}

void Requests::remove(ListenerId id, Listener* listener, const Route& route) {
  const Sender sender(route);
  if (listener != nullptr) {
    --listener->waiting;
  }
  --waiting_;
  take_one(kAll, sender);
  take_one(id, sender);
}

void Requests::take_one(ListenerId id, const Sender& sender) {
  const auto at = counts_.find({id, sender});
  if (--at->second == 0) {
    counts_.erase(at);
  }
}

}  // namespace uroce::control::cm
