#pragma once

// What a requester retransmits beside the stream of new packets: *holes*, packets that the peer is
// known or suspected to lack although it has later ones. And the tail *probe*: the retransmission
// of the oldest unacknowledged packet into a silence, long before the queue pair's timeout
// attribute, which keeps its meaning that the peer may be dead.
//
// Deals with times and PSNs only; the requester sends. Holes are in PSN order, within
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
  Time sent_at = 0;           // when it was sent again last, or part of it was answered

  [[nodiscard]] std::uint32_t end() const { return psn_add(psn, count); }
  // What was sent again last was lost, too, if the peer has got as far as `newest`.
  [[nodiscard]] bool lost_again(std::uint32_t newest) const {
    return waiting == 0 && psn_difference(newest, behind) >= 0;
  }
};

class Repair {
 public:
  static constexpr std::uint32_t kHolesMax = 32;
  static constexpr std::uint32_t kBackOffMax = 10;  // powers of two
  // The repair timeout as long as no round trip was measured.
  static constexpr Duration kTimeoutFirst = 10 * kNanosecondsPerMillisecond;

  // A new connection.
  void forget() { *this = Repair(); }
  // Everything unacknowledged is retransmitted anyway. Probes into the same silence wait no less.
  void clear();

  // The answer to a packet that was sent only once took this long.
  void measured(Duration round_trip) { trip_.sample(round_trip); }
  // The peer still answers something that was sent before what it owes an answer to: since it
  // answers in order, it may not have got to a probe or a retransmission yet.
  void heard(Time now);
  // Everything before `unacked_psn` is acknowledged now.
  void advanced(std::uint32_t unacked_psn, Time now);

  // Adds a hole to be retransmitted, unless it is known already; false if there are too many.
  bool add(std::uint32_t psn, std::uint32_t count);
  // As add() of one packet, if the peer has received up to `newest`: a retransmission sent before
  // that was lost as well.
  bool add_behind(std::uint32_t psn, std::uint32_t newest);
  // For a hole within [psn, end), if there is one, as add_behind(); false: there is none.
  bool again_behind(std::uint32_t psn, std::uint32_t end, std::uint32_t newest);
  // As add(), but retransmitted even if it was recently.
  void add_again(std::uint32_t psn, std::uint32_t count);
  // Whether the peer has answered `psn`, but not a hole that was retransmitted before the request
  // of that was sent: since it answers in order, the retransmission was lost as well.
  [[nodiscard]] bool overtaken(std::uint32_t psn) const;
  // A response with this PSN was received out of order. True if it completed a hole.
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
  [[nodiscard]] bool in(std::uint32_t psn, std::uint32_t end) const {
    return find_in(psn, end) != count_;
  }
  [[nodiscard]] bool has_holes() const { return count_ != 0; }
  [[nodiscard]] bool has_waiting() const { return waiting_ != 0; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  // The oldest hole to be retransmitted. REQUIRES: has_waiting()
  [[nodiscard]] Hole& next_waiting();
  // The hole was retransmitted; new packets get PSNs from `high_psn` on.
  void retransmitted(Hole& hole, std::uint32_t high_psn, Time now);

  // The peer was heard, or an answer was requested: if nothing is received for the probe timeout
  // from now on, and packets are `outstanding`, a probe is due.
  void watch(bool outstanding, Time now);
  [[nodiscard]] bool probing() const { return probing_; }
  // The earliest time at which on_time() has something to do.
  [[nodiscard]] Time deadline() const;
  // Schedules holes again that should have been filled by now. True if a probe is due and
  // `may_probe`; otherwise it is due again later, each time after twice as long.
  bool on_time(Time now, bool may_probe);

 private:
  // Whether all holes begin before `psn`. The packets that a SACK reports as missing come in the
  // order of their PSNs, hundreds of them if the peer likes, so most are behind all.
  [[nodiscard]] bool is_behind_all(std::uint32_t psn) const {
    return count_ == 0 || psn_difference(psn, holes_[count_ - 1].psn) > 0;
  }
  Hole* find(std::uint32_t psn);
  // The place of the first hole within [psn, end); count_: there is none.
  [[nodiscard]] std::uint32_t find_in(std::uint32_t psn, std::uint32_t end) const;
  void wait_if_behind(Hole& hole, std::uint32_t newest);
  void remove(std::uint32_t index);
  void schedule_probe(Time now);
  bool shrink(std::uint32_t index, std::uint32_t psn, Time now);
  [[nodiscard]] Time repair_at(const Hole& hole) const;

  std::uint32_t count_ = 0;
  std::uint32_t waiting_ = 0;
  Time probe_at_ = kNever;
  Time heard_at_ = 0;           // heard()
  bool probing_ = false;        // a probe was sent since the last progress or going back
  std::uint32_t back_off_ = 0;  // probes since the last progress
  std::uint32_t put_off_ = 0;   // how often the probe that is due couldn't be sent
  RoundTrip trip_;              // of what the program asked for, waits in queues included
  RoundTrip repair_trip_;       // of what was sent again
  std::array<Hole, kHolesMax> holes_{};
};

}  // namespace uroce
