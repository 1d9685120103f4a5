#pragma once

// What a requester sends again by itself, beside the stream of new packets: the *holes*, packets
// that the peer is known or suspected to miss while it has later ones. And when it asks into a
// silence: the *probe* of the oldest packet that isn't acknowledged, long before the timer of the
// queue pair's attributes, which goes on meaning that the peer may be dead.
//
// Knows times and PSNs only; the requester sends. Holes are in the order of their PSNs, within
// [unacked_psn_, cursor_psn_) of the requester, and don't overlap.

#include <array>
#include <cstdint>

#include "dataplane/qp/recovery/round_trip.h"
#include "dataplane/wire/psn.h"

namespace uroce {

struct Hole {
  std::uint32_t psn = 0;
  std::uint32_t count = 1;    // PSNs: more than one only for the responses of a READ
  std::uint32_t tries = 0;    // how often it was sent again
  std::uint32_t waiting = 0;  // to be sent again now
  std::uint32_t behind = 0;   // PSNs from this on were sent after it was
  Time asked = 0;             // when it was sent again last

  [[nodiscard]] std::uint32_t end() const { return psn_add(psn, count); }
};

class Repair {
 public:
  static constexpr std::uint32_t kHolesMax = 32;
  static constexpr std::uint32_t kBackOffMax = 10;  // powers of two
  // With what was sent again, as long as no round trip was measured.
  static constexpr Duration kTimeoutFirst = 10 * kNanosecondsPerMillisecond;

  // A new connection: nothing is known of the peer.
  void forget() { *this = Repair(); }
  // Everything that isn't acknowledged is sent again anyway.
  void clear();

  // The answer to a packet that was sent once took so long.
  void measured(Duration round_trip) { trip_.sample(round_trip); }
  // Everything before `unacked_psn` is answered now.
  void advanced(std::uint32_t unacked_psn, Time now);

  // A hole that is to be sent again. Nothing if it is known already; false if there are too many.
  bool add(std::uint32_t psn, std::uint32_t count);
  // As add() of one packet, where the peer has something up to `newest`: what was sent again before
  // that was lost once more.
  bool add_behind(std::uint32_t psn, std::uint32_t newest);
  // As add(), but sent again even if it was lately.
  void insist(std::uint32_t psn, std::uint32_t count);
  // The answer with this PSN came, ahead of others. True if it was the last of a hole.
  bool filled(std::uint32_t psn, Time now);
  // The peer has the packets that `has(psn)` says: their holes are closed.
  template <typename Has>
  void closed(Has has, Time now) {
    for (std::uint32_t i = 0; i < count_;) {
      const Hole& hole = holes_[i];
      i += hole.count == 1 && has(hole.psn) && shrink(i, hole.end(), now) ? 0 : 1;
    }
  }
  // Whether there is a hole within [psn, end).
  [[nodiscard]] bool in(std::uint32_t psn, std::uint32_t end) const;
  [[nodiscard]] bool has_holes() const { return count_ != 0; }
  [[nodiscard]] bool has_waiting() const { return waiting_ != 0; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  // The oldest one that is to be sent again. REQUIRES: has_waiting()
  [[nodiscard]] Hole& next_waiting();
  // New packets get PSNs from `high_psn` on.
  void asked(Hole& hole, std::uint32_t high_psn, Time now);

  // The peer was heard, or asked: if it says nothing for a while from now on, `outstanding` packets
  // want a probe.
  void watch(bool outstanding, Time now);
  [[nodiscard]] bool probing() const { return silent_probes_ != 0; }
  // The earliest time at which on_time() has something to do.
  [[nodiscard]] Time deadline() const;
  // Has holes sent again that should have been closed by now. True if a probe is due.
  bool on_time(Time now);

 private:
  Hole* find(std::uint32_t psn);
  void remove(std::uint32_t index);
  bool shrink(std::uint32_t index, std::uint32_t psn, Time now);
  [[nodiscard]] Duration repair_timeout(const Hole& hole) const;

  std::uint32_t count_ = 0;
  std::uint32_t waiting_ = 0;
  Time probe_at_ = kNever;
  std::uint32_t silent_probes_ = 0;  // since the peer was heard last
  RoundTrip trip_;                   // of what the program asked for, waits in queues included
  RoundTrip repair_trip_;            // of what was sent again
  std::array<Hole, kHolesMax> holes_{};
};

}  // namespace uroce
