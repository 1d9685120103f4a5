#pragma once

// Whether a requester's next message may do without frames. A message that couldn't (a page that
// isn't resident, no receive, an error) took frames, and most likely the next one would have to as
// well; so the more often it was tried in vain, the more messages go as frames before the next try.
//
// A message goes directly only when nothing is outstanding, so that none is executed twice or out
// of order: once it is time to try again, the requester lets what is under way be answered first.

#include <algorithm>
#include <cstdint>

namespace uroce {

class DirectPolicy {
 public:
  static constexpr std::uint32_t kDetourMax = 63;  // messages

  // The peer is, or isn't, where it can be reached without frames.
  void look(bool local_peer) { has_local_peer_ = local_peer; }
  [[nodiscard]] bool open() const { return has_local_peer_ && detour_ == 0; }

  void taken() { last_detour_ = 0; }
  // What was tried must go as frames.
  void declined() {
    last_detour_ = std::min(2 * last_detour_ + 1, kDetourMax);
    detour_ = last_detour_;
  }
  // A message begins, whichever way it goes.
  void message_begins() { detour_ -= detour_ == 0 ? 0 : 1; }

 private:
  bool has_local_peer_ = false;
  std::uint32_t detour_ = 0;  // messages that go as frames yet
  std::uint32_t last_detour_ = 0;
};

}  // namespace uroce
