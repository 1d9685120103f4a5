// The answers to a stream's requests: acknowledgements, NAKs, READ responses.

#include <algorithm>
#include <iterator>
#include <span>

#include "apps/check/stream.h"
#include "apps/check/text.h"
#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/wire/sack.h"

namespace uroce::check {

Stream::Read* Stream::read_at(Position at) {
  const auto behind =
      std::upper_bound(reads_.begin(), reads_.end(), at,
                       [](Position position, const Read& read) { return position < read.first; });
  if (behind == reads_.begin() || at >= std::prev(behind)->end) {
    return nullptr;
  }
  return &*std::prev(behind);
}

void Stream::answer(const Seen& seen) {
  if (!begun_) {
    return;
  }
  const Position at = position_of(seen.packet.psn);
  const Operation operation = opcode_info(seen.packet.opcode).operation;
  if (operation != Operation::kAcknowledge) {
    ++answerer_->responses_sent;
    response(seen, at);
    return;
  }
  const std::uint8_t syndrome = seen.packet.aeth().syndrome;
  const std::uint8_t kind = syndrome & kSyndromeKindMask;
  const bool sequence = syndrome == kSyndromeNak;
  ++(kind == kSyndromeRnr   ? answerer_->rnr_naks_sent
     : kind == kSyndromeNak ? answerer_->naks_sent
                            : answerer_->acks_sent);
  answerer_->sequence_naks_sent += sequence ? 1 : 0;
  // Far off: it answers what came before the capture, or before the sequence jumped.
  if (at < base_ || at > next_ + kJumpMax || !believable(seen, at)) {
    return;
  }
  spoken_ = true;
  if (kind == kSyndromeRnr) {
    rnr_nak(seen, at);
  } else if (sequence) {
    sequence_nak(seen, at);
  } else if (kind == kSyndromeNak) {
    word(seen, at);  // the connection's end
    gaps_.clear();
    nak_.reset();
  } else {
    acknowledge(seen, at);
  }
}

// A receiver can't acknowledge what it can't have received.
bool Stream::believable(const Seen& seen, Position at) {
  if (at >= next_) {
    find(Fault::kAckBeyondSent, seen.place,
         "PSN " + std::to_string(seen.packet.psn) + " is answered, but " +
             std::to_string(psn_of(next_ - 1)) + " was the last that was sent");
    return false;
  }
  return true;
}

void Stream::acknowledge(const Seen& seen, Position at) {
  word(seen, at + 1);
  measure(at + 1, seen.place.time);
}

// Everything before `upto` has come to the answerer.
void Stream::word(const Seen& seen, Position upto) {
  if (const auto gap = gaps_.drop_before(upto)) {
    find(Fault::kAckOverGap, seen.place,
         psns(psn_of(gap->from), psn_of(std::min(gap->to, upto) - 1)) +
             " never came by, but counts as received");
  }
  if (upto < acknowledged_) {
    find(Fault::kAckWentBack, seen.place,
         "PSN " + std::to_string(seen.packet.psn) + " after PSN " +
             std::to_string(psn_of(acknowledged_ - 1)) + " had been acknowledged");
  }
  acknowledged_ = std::max(acknowledged_, upto);
  said_ = std::max(said_, upto);
  named_.erase(named_.begin(), named_.lower_bound(acknowledged_));
  if (nak_ && *nak_ < upto) {
    nak_.reset();
  }
}

void Stream::sequence_nak(const Seen& seen, Position at) {
  if (next_ < at + 2) {
    find(Fault::kNakWithoutGap, seen.place,
         "PSN " + std::to_string(seen.packet.psn) + ": nothing behind it had been sent");
  } else if (nak_ == at) {
    find(Fault::kSecondNak, seen.place,
         "PSN " + std::to_string(seen.packet.psn) + " was named in frame " +
             std::to_string(nak_frame_) + " already, and didn't come again since");
  }
  if (const auto& all = gaps_.all();
      !all.empty() && all.front().from <= at && !all.front().spoken_of && at < all.front().to) {
    some_times().nak.add(seen.place.time - std::min(seen.place.time, all.front().since));
  }
  word(seen, at);
  measure(at, seen.place.time);
  gaps_.note_word();
  name_lost(at);
  rnr_.reset();
  nak_ = at;
  nak_frame_ = seen.place.frame;
  nak_time_ = seen.place.time;
}

void Stream::rnr_nak(const Seen& seen, Position at) {
  word(seen, at);
  gaps_.note_word();
  name_lost(at);
  nak_.reset();
  rnr_ = at;
  nak_time_ = seen.place.time;
  rnr_until_ =
      nak_time_ + kRnrTimer[seen.packet.aeth().syndrome & kSyndromeValueMask] * kRnrTimerUnit;
}

void Stream::name_lost(Position at) {
  if (named_.size() == kRememberedMax) {
    named_.erase(named_.begin());
  }
  named_.insert(at);
}

// Samples what ends exactly where the word does: of what it speaks for besides nobody knows when it
// came.
void Stream::measure(Position upto, Time now) {
  while (!pending_.empty() && pending_.front().end <= upto) {
    const Pending& pending = pending_.front();
    if (pending.end == upto && !pending.again && now >= pending.since) {
      some_times().answer.add(now - pending.since);
    }
    pending_.pop_front();
  }
}

// READs before this one whose answers didn't all come: lost on the way here, or overtaken.
void Stream::skip_unanswered(const Seen& seen, Position upto) {
  for (Read& read : reads_) {
    const Position end = std::min(read.end, upto);
    if (read.first >= upto) {
      return;
    }
    if (read.answered < end) {
      ++answerer_->response_gaps;
      unanswered_.add(
          {.from = read.answered, .to = end, .frame = seen.place.frame, .since = seen.place.time});
      read.answered = end;
    }
  }
}

void Stream::response(const Seen& seen, Position at) {
  if (at < base_ || at > next_ + kJumpMax) {
    return;
  }
  spoken_ = true;
  Read* const read = read_at(at);
  if (read == nullptr) {
    if (at >= next_ && believable(seen, at)) {
      return;
    }
    if (at < next_ && at >= reads_forgotten_ && !gaps_.contains(at)) {
      find(Fault::kResponseUnasked, seen.place,
           "PSN " + std::to_string(seen.packet.psn) + ": no READ or atomic has that PSN");
    }
    return;
  }
  said_ = std::max(said_, at + 1);
  if (nak_ && at >= *nak_) {
    nak_.reset();  // it has come: in front of what is answered now
  }
  if (at < read->answered) {
    if (unanswered_.fill(at, 1)) {  // repaired; else once more
      filled_ = seen.place.time;
    }
    return;
  }
  skip_unanswered(seen, at);
  read->answered = at + 1;
  measure(at + 1, seen.place.time);
  const auto answered = std::find_if(reads_.begin(), reads_.end(),
                                     [](const Read& other) { return other.answered < other.end; });
  const auto done = static_cast<std::size_t>(answered - reads_.begin());
  if (unanswered_.empty() && done > kAnsweredReadsMax) {
    forget_reads(reads_.size() - done + kAnsweredReadsMax);
  }
}

void Stream::selective_ack(const Seen& seen) {
  const auto sack =
      parse_sack(std::span<const std::byte>(seen.packet.payload, seen.packet.payload_length));
  if (!begun_ || !sack) {
    return;
  }
  const Position first = position_of(seen.packet.psn);
  gaps_.note_word();
  for (std::uint32_t i = 0; i < sack->psns; ++i) {
    if (!sack->received[i]) {
      name_lost(first + i);
    }
  }
}

}  // namespace uroce::check
