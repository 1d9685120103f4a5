#pragma once

// Decides whether a requester tries to transfer its next message directly, without frames. After a
// message that couldn't (a page that isn't resident, no receive posted, an error) the next ones
// most likely can't either; so with each failed attempt more messages go as frames before the next
// attempt.
//
// A message goes directly only when nothing is outstanding, so that nothing is executed twice or
// out of order: when it is time to try again, the requester first waits until everything
// outstanding is acknowledged.

#include <algorithm>
#include <cstdint>

namespace uroce {

class DirectPolicy {
 public:
  static constexpr std::uint32_t kDetourMax = 63;  // messages

  // Whether the peer is local, that is, can be reached without frames.
  void set_local_peer(bool local_peer) { has_local_peer_ = local_peer; }
  [[nodiscard]] bool open() const { return has_local_peer_ && detour_ == 0; }

  void taken() { last_detour_ = 0; }
  // The attempt failed: the message goes as frames.
  void declined() {
    last_detour_ = std::min(2 * last_detour_ + 1, kDetourMax);
    detour_ = last_detour_;
  }
  // A message begins, directly or as frames.
  void message_begins() { detour_ -= detour_ == 0 ? 0 : 1; }

 private:
  bool has_local_peer_ = false;
  std::uint32_t detour_ = 0;  // messages that go as frames yet
  std::uint32_t last_detour_ = 0;
};

}  // namespace uroce
