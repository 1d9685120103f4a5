#pragma once

// Counts unanswered requests per listener and sender: another machine, or a user of this one, whose
// programs all have the card's own addresses.
//
// A sender takes at most half of what the others leave of a backlog, and of all backlogs together.
// So a sender that floods a listener leaves room for others, of which each may take half of the
// rest.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "control/cm/events.h"
#include "control/cm/listeners.h"
#include "dataplane/wire/address.h"

namespace uroce::control::cm {

class Requests {
 public:
  enum class [[nodiscard]] Admission : std::uint8_t{
      kAdmitted, kBacklogFull,
      kShareTaken,  // there is room, but not for this sender
      kAllFull,     // kUnansweredMax
  };
  [[nodiscard]] Admission admission(const Listener& listener, const Route& route) const;

  // Adds a waiting request. Returns the number of the sender's requests that wait at this listener
  // already. REQUIRES: it was admitted.
  std::uint32_t add(Listener* listener, const Route& route);
  // Removes a waiting request; the listener may be gone (nullptr).
  void remove(ListenerId id, Listener* listener, const Route& route);

 private:
  struct Sender {
    explicit Sender(const Route& route)
        : user(route.local_user), host(user ? Gid{} : host_of(route.remote)) {}
    std::optional<User> user;
    Gid host;
    auto operator<=>(const Sender&) const = default;
  };
  using Counts = std::map<std::pair<ListenerId, Sender>, std::uint32_t>;
  static constexpr ListenerId kAll = 0;  // not a listener's number: the total over all listeners

  [[nodiscard]] std::uint32_t count(ListenerId id, const Sender& sender) const;
  void take_one(ListenerId id, const Sender& sender);

  Counts counts_;
  std::uint32_t waiting_ = 0;
};

}  // namespace uroce::control::cm
