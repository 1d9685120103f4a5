#pragma once

// One direction of a connection: the requests of one end and the responses of the other, in the
// order in which they passed the point of capture.
//
// That point is unknown: a packet may have been lost before it (then the sequence has a gap) or
// behind it (then only later packets show it). So the rules require only what must hold at every
// point of the path: what was acknowledged has passed; what is retransmitted was named by a NAK, or
// is the oldest packet whose acknowledgement hasn't passed; a NAK has something behind it that has
// passed.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "apps/check/findings.h"
#include "apps/check/histogram.h"
#include "apps/check/psn_gaps.h"
#include "apps/check/tally.h"
#include "base/time.h"
#include "dataplane/wire/packet.h"

namespace uroce::check {

struct Limits {
  Duration cnp_interval = 4 * kNanosecondsPerMicrosecond;  // between notifications, at least
  Duration overtaken = 10 * kNanosecondsPerMillisecond;    // so late does a network deliver
  Duration patience = 100 * kNanosecondsPerMillisecond;    // what isn't repaired by then isn't
};

// A packet with its position in the capture.
struct Seen {
  const Packet& packet;
  Place place;
};

// Durations, between packets at the point of capture.
struct Times {
  Histogram answer;    // from a request to the word that ends with it
  Histogram nak;       // from what shows a gap to the NAK
  Histogram reaction;  // from a NAK to what it names
};

class Stream {
 public:
  // The limit of outstanding requests that are remembered.
  static constexpr std::size_t kRememberedMax = 1'024;
  static constexpr std::size_t kAnsweredReadsMax = 64;
  // A PSN further away than this belongs to another connection with the same numbers.
  static constexpr Position kJumpMax = 1 << 18;

  // Those it is given live longer. `reliable`: RC and XRC; UC has no answers. `asker` counts what
  // the requester sent.
  Stream(std::uint32_t mtu, bool reliable, const Limits& limits, Findings& findings, Tally& asker,
         Tally& nobody)
      : mtu_(mtu),
        reliable_(reliable),
        limits_(limits),
        findings_(findings),
        asker_(asker),
        answerer_(&nobody) {}

  // The tally of the other end's packets; before the first call they aren't counted.
  void answered_by(Tally& answerer) { answerer_ = &answerer; }

  void request(const Seen& seen);
  void answer(const Seen& seen);
  // A SACK of another uroce (wire/sack.h) names holes as a NAK does.
  void selective_ack(const Seen& seen);
  // Nothing comes after this.
  void end(Time last);

  // Holes that there was no more room for: nobody looked whether they were closed.
  [[nodiscard]] std::uint64_t gaps_forgotten() const {
    return gaps_.forgotten() + unanswered_.forgotten();
  }
  [[nodiscard]] const Times* times() const { return times_.get(); }

 private:
  enum class Message : std::uint8_t { kUnknown, kBetween, kSend, kWrite };

  // A READ or an atomic, and how far its answers came by.
  struct Read {
    Position first = 0, end = 0, answered = 0;
    Reth reth;
  };
  struct Pending {
    Position end = 0;
    Time since = 0;
    bool again = false;  // then it is unknown which of them was answered
  };

  [[nodiscard]] Position position_of(std::uint32_t psn) const;
  [[nodiscard]] std::uint32_t psn_of(Position at) const;
  [[nodiscard]] Position packets_of(const Packet& packet) const;
  [[nodiscard]] Read* read_at(Position at);
  Times& some_times();
  void find(Fault fault, const Place& place, std::string sentence);

  void begin(Position at);
  void fresh(const Seen& seen, Position at, Position count);
  void again(const Seen& seen, Position at, Position count);
  void closes(const Seen& seen, const Gap& gap, Position at);
  void check_cause(const Seen& seen, Position at);
  void check_message(const Seen& seen);
  void check_read_again(const Seen& seen, Position at, Position count);
  void note_again(Position at, Position count, Time now);
  void forget_reads(std::size_t kept);
  void remember_read(const Seen& seen, Position at, Position count);

  void acknowledge(const Seen& seen, Position at);
  void sequence_nak(const Seen& seen, Position at);
  void rnr_nak(const Seen& seen, Position at);
  bool believable(const Seen& seen, Position at);
  void word(const Seen& seen, Position upto);
  void response(const Seen& seen, Position at);
  void skip_unanswered(const Seen& seen, Position upto);
  void name_lost(Position at);
  void measure(Position upto, Time now);

  const std::uint32_t mtu_;
  const bool reliable_;
  const Limits& limits_;
  Findings& findings_;
  Tally& asker_;
  Tally* answerer_;

  bool begun_ = false;
  std::uint32_t first_psn_ = 0;
  Position base_ = 0;  // the first that came by
  Position next_ = 0;  // behind the newest that came by
  PsnGaps gaps_;
  Message message_ = Message::kUnknown;

  std::deque<Read> reads_;        // by their PSNs
  Position reads_forgotten_ = 0;  // requests before this are unknown
  PsnGaps unanswered_;            // READ responses that later ones showed to be missing
  std::optional<Time> filled_;    // when one of those came last
  std::deque<Pending> pending_;
  std::set<Position> named_;  // by NAKs and SACKs

  bool spoken_ = false;        // an answer came by
  Position acknowledged_ = 0;  // by ACKs and NAKs; they don't go back
  Position said_ = 0;          // by answers of any kind
  bool going_back_ = false;    // what comes again may go on from went_back_to_
  Position went_back_to_ = 0;
  std::optional<Position> nak_;  // that nothing has reacted to yet
  std::uint64_t nak_frame_ = 0;
  Time nak_time_ = 0;
  std::optional<Position> rnr_;
  Time rnr_until_ = 0;
  std::unique_ptr<Times> times_;
};

}  // namespace uroce::check
