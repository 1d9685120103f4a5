#pragma once

// Counts unanswered requests per listener and sender.
//
// A sender takes at most half of what the others leave of a backlog, and of all backlogs together.
// So a sender that floods a listener leaves room for others, of which each may take half of the
// rest.

#include <cstdint>
#include <map>
#include <utility>

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
  [[nodiscard]] Admission admission(const Listener& listener, const Gid& sender) const;

  // Adds a waiting request. Returns the number of the sender's requests that wait at this listener
  // already. REQUIRES: it was admitted.
  std::uint32_t add(Listener* listener, const Gid& sender);
  // Removes a waiting request; the listener may be gone (nullptr).
  void remove(ListenerId id, Listener* listener, const Gid& sender);

 private:
  using Counts = std::map<std::pair<ListenerId, Gid>, std::uint32_t>;  // by host_of()
  static constexpr ListenerId kAll = 0;  // not a listener's number: the total over all listeners

  [[nodiscard]] std::uint32_t count(ListenerId id, const Gid& sender) const;
  void take_one(ListenerId id, const Gid& sender);

  Counts counts_;
  std::uint32_t waiting_ = 0;
};

}  // namespace uroce::control::cm
