#pragma once

// The requests that no program has answered yet: how many wait at a listener, and from whom.
//
// A sender takes at most half of what the others leave of a backlog, and of all backlogs together.
// So whoever floods a listener leaves room for others, who may take half of what is left then.

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

  // One more waits. Returns how many of the sender's wait at this listener already.
  // REQUIRES: it was admitted.
  std::uint32_t add(Listener* listener, const Gid& sender);
  // It doesn't wait any more; the listener may be gone (nullptr).
  void remove(ListenerId id, Listener* listener, const Gid& sender);

 private:
  using Counts =
      std::map<std::pair<ListenerId, Gid>, std::uint32_t>;  // by host_of(); without zeroes
  static constexpr ListenerId kAll = 0;  // no listener's number: the count of all of them

  [[nodiscard]] std::uint32_t count(ListenerId id, const Gid& sender) const;
  void take_one(ListenerId id, const Gid& sender);

  Counts counts_;
  std::uint32_t waiting_ = 0;
};

}  // namespace uroce::control::cm
