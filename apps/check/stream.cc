// The requests of a stream: whether they follow each other, and why one comes again.

#include "apps/check/stream.h"

#include <algorithm>

#include "apps/check/text.h"
#include "dataplane/wire/psn.h"

namespace uroce::check {

Position Stream::position_of(std::uint32_t psn) const {
  return next_ + psn_difference(psn, psn_of(next_));
}

std::uint32_t Stream::psn_of(Position at) const {
  return static_cast<std::uint32_t>(at + first_psn_) & kPsnMask;
}

Position Stream::packets_of(const Packet& packet) const {
  if (opcode_info(packet.opcode).operation != Operation::kReadRequest) {
    return 1;
  }
  return std::max<Position>(1, (Position{packet.reth().length} + mtu_ - 1) / mtu_);
}

Times& Stream::some_times() {
  if (times_ == nullptr) {
    times_ = std::make_unique<Times>();
  }
  return *times_;
}

void Stream::find(Fault fault, const Place& place, std::string sentence) {
  findings_.add(fault, place, std::move(sentence));
}

void Stream::request(const Seen& seen) {
  if (!begun_) {
    begun_ = true;
    first_psn_ = seen.packet.psn;
    begin(0);
  }
  Position at = position_of(seen.packet.psn);
  if (at > next_ + kJumpMax || at < next_ - kJumpMax) {
    ++asker_.begun_again;
    begin(at);
  }
  const Position count = packets_of(seen.packet);
  if (at >= next_) {
    fresh(seen, at, count);
  } else {
    again(seen, at, count);
  }
}

// Everything seen before belongs to another connection.
void Stream::begin(Position at) {
  base_ = next_ = acknowledged_ = said_ = reads_forgotten_ = at;
  gaps_.clear();
  unanswered_.clear();
  reads_.clear();
  pending_.clear();
  named_.clear();
  nak_.reset();
  rnr_.reset();
  spoken_ = going_back_ = false;
  message_ = Message::kUnknown;
}

void Stream::fresh(const Seen& seen, Position at, Position count) {
  ++asker_.requests_sent;
  if (at > next_) {
    ++asker_.gaps;
    gaps_.add({.from = next_, .to = at, .frame = seen.place.frame, .since = seen.place.time});
    message_ = Message::kUnknown;
  }
  going_back_ = false;
  check_message(seen);
  next_ = at + count;
  remember_read(seen, at, count);
  if (pending_.size() == kRememberedMax) {
    pending_.pop_front();
  }
  pending_.push_back({.end = next_, .since = seen.place.time});
}

void Stream::remember_read(const Seen& seen, Position at, Position count) {
  const OpcodeInfo& info = opcode_info(seen.packet.opcode);
  const bool read = info.operation == Operation::kReadRequest;
  if (!read && !info.has(Extension::kAtomicEth) && info.operation != Operation::kFlush &&
      info.operation != Operation::kAtomicWrite) {
    return;
  }
  if (reads_.size() == kRememberedMax) {
    forget_reads(kRememberedMax - 1);
  }
  // A lost one comes behind later ones, so they are kept sorted. The rest of it may have come alone
  // before: it is a part of this one.
  std::erase_if(reads_,
                [&](const Read& other) { return other.first >= at && other.end <= at + count; });
  const auto place = std::find_if(reads_.begin(), reads_.end(),
                                  [&](const Read& other) { return other.first > at; });
  reads_.insert(
      place,
      {.first = at, .end = at + count, .answered = at, .reth = read ? seen.packet.reth() : Reth{}});
}

void Stream::forget_reads(std::size_t kept) {
  while (reads_.size() > kept) {
    reads_forgotten_ = std::max(reads_forgotten_, reads_.front().end);
    reads_.pop_front();
  }
}

// Of packets in their order; what fills a gap isn't looked at.
void Stream::check_message(const Seen& seen) {
  const OpcodeInfo& info = opcode_info(seen.packet.opcode);
  const bool send = info.operation == Operation::kSend;
  const bool of_several = send || info.operation == Operation::kWrite;
  const Message its_kind = send ? Message::kSend : Message::kWrite;
  const bool inside = message_ == Message::kSend || message_ == Message::kWrite;
  if ((inside && (info.first || message_ != its_kind)) ||
      (message_ == Message::kBetween && !info.first)) {
    find(Fault::kMessageBroken, seen.place,
         std::string(info.name) + ", PSN " + std::to_string(seen.packet.psn) +
             (inside ? ", in the middle of another message" : ", without a beginning"));
  }
  if (of_several && !info.last && seen.packet.payload_length != mtu_) {
    find(Fault::kNotFull, seen.place,
         std::string(info.name) + ", PSN " + std::to_string(seen.packet.psn) + ", has " +
             std::to_string(seen.packet.payload_length) + " bytes where the path MTU is " +
             std::to_string(mtu_));
  }
  message_ = info.last || !of_several ? Message::kBetween : its_kind;
}

void Stream::again(const Seen& seen, Position at, Position count) {
  if (at < base_) {
    ++asker_.requests_resent;  // of before the capture began
    base_ = at;
    return;
  }
  if (const auto gap = gaps_.fill(at, count)) {
    closes(seen, *gap, at);
    if (read_at(at) == nullptr) {
      remember_read(seen, at, count);
    }
  } else {
    ++asker_.requests_resent;
    if (reliable_) {
      check_cause(seen, at);
    }
  }
  if (reliable_ && opcode_info(seen.packet.opcode).operation == Operation::kReadRequest) {
    check_read_again(seen, at, count);
  }
  note_again(at, count, seen.place.time);
}

// What fills a gap was lost before the place of capture and sent again, or only overtaken. Answers
// keep the order of requests: a NAK's turn comes when all before the gap have theirs (9.7.5.1.2).
void Stream::closes(const Seen& seen, const Gap& gap, Position at) {
  const Duration late = seen.place.time - std::min(seen.place.time, gap.since);
  const bool overtaken = !gap.spoken_of && named_.count(at) == 0 && late < limits_.overtaken;
  ++(overtaken ? asker_.requests_overtaken : asker_.requests_resent);
  if (reliable_ && spoken_ && !overtaken && !gap.spoken_of && said_ >= gap.from) {
    find(Fault::kNakMissing, seen.place,
         "PSN " + std::to_string(psn_of(at)) + " was missing for " + milliseconds(late) +
             " (since frame " + std::to_string(gap.frame) + "), and no NAK said so");
  }
}

void Stream::check_cause(const Seen& seen, Position at) {
  const bool goes_on = going_back_ && at >= went_back_to_;
  const bool caused =
      !spoken_ || at <= said_ || named_.count(at) != 0 || goes_on || unanswered_.contains(at);
  if (!caused) {
    find(Fault::kResendWithoutCause, seen.place,
         "PSN " + std::to_string(seen.packet.psn) + " again, though no NAK named it and PSN " +
             std::to_string(psn_of(said_)) + " is the oldest without an answer");
  }
  if (rnr_ && *rnr_ == at) {
    // A tenth is left to clocks.
    if (seen.place.time < nak_time_ + (rnr_until_ - nak_time_) * 9 / 10) {
      find(Fault::kRnrTooEarly, seen.place,
           "PSN " + std::to_string(seen.packet.psn) + " again after " +
               milliseconds(seen.place.time - nak_time_) + ", where the RNR NAK asked for " +
               milliseconds(rnr_until_ - nak_time_));
    }
    rnr_.reset();
  }
}

void Stream::note_again(Position at, Position count, Time now) {
  going_back_ = true;
  went_back_to_ = at + count;
  if (nak_ && at <= *nak_ && *nak_ < at + count) {
    some_times().reaction.add(now - std::min(now, nak_time_));
    nak_.reset();
  }
  for (Pending& pending : pending_) {
    pending.again = pending.again || (pending.end > at && pending.end <= at + count);
  }
}

// The same READ, or the rest of it from a packet on: address and length must fit the PSN.
void Stream::check_read_again(const Seen& seen, Position at, Position count) {
  const Read* const read = read_at(at);
  if (read == nullptr || read->end == read->first) {
    return;
  }
  const Reth asked = seen.packet.reth();
  const std::uint64_t offset = static_cast<std::uint64_t>(at - read->first) * mtu_;
  const bool same_place = asked.address == read->reth.address + offset &&
                          asked.rkey == read->reth.rkey &&
                          offset + asked.length <= read->reth.length;
  const bool whole_packets = offset + asked.length == read->reth.length || asked.length % mtu_ == 0;
  if (!same_place || !whole_packets) {
    find(
        Fault::kReadAgainWrongRange, seen.place,
        "PSN " + std::to_string(seen.packet.psn) + " asks for " + std::to_string(asked.length) +
            " bytes at " + hex(asked.address) + "; that PSN of the READ stands for " +
            hex(read->reth.address + offset) + ", of which " +
            std::to_string(read->reth.length - std::min<std::uint64_t>(offset, read->reth.length)) +
            " bytes are left");
    return;
  }
  for (const Gap& gap : unanswered_.all()) {
    if (gap.from < read->first) {
      return;  // it goes back to an earlier READ, and needn't have buffered what followed
    }
    if (gap.from < at + count) {
      // Who asks may not have seen yet what has just come by.
      const bool crosses = filled_ && seen.place.time < *filled_ + limits_.overtaken;
      if (at < gap.from && !crosses) {
        find(Fault::kReadAgainTooEarly, seen.place,
             "PSN " + std::to_string(seen.packet.psn) + " asks again for answers that came; PSN " +
                 std::to_string(psn_of(gap.from)) + " is the first that is missing");
      }
      return;
    }
  }
}

void Stream::end(Time last) {
  if (!reliable_ || !spoken_) {
    return;
  }
  for (const Gap& gap : gaps_.all()) {
    if (last > gap.since + limits_.patience) {
      const Place place{.frame = gap.frame, .time = gap.since};
      find(Fault::kGapNotRepaired, place,
           psns(psn_of(gap.from), psn_of(gap.to - 1)) + " never came" +
               (gap.spoken_of ? "" : ", and no NAK said so"));
      if (!gap.spoken_of) {
        find(Fault::kNakMissing, place,
             psns(psn_of(gap.from), psn_of(gap.to - 1)) + " is missing, and no NAK said so");
      }
    }
  }
  if (nak_ && rnr_ == std::nullopt && last > nak_time_ + limits_.patience &&
      !gaps_.contains(*nak_)) {
    find(Fault::kGapNotRepaired, {.frame = nak_frame_, .time = nak_time_},
         "a NAK named PSN " + std::to_string(psn_of(*nak_)) + ", and it never came again");
  }
  for (const Gap& gap : unanswered_.all()) {
    if (last > gap.since + limits_.patience) {
      find(Fault::kResponseGapNotRepaired, {.frame = gap.frame, .time = gap.since},
           "READ response " + psns(psn_of(gap.from), psn_of(gap.to - 1)) + " never came");
    }
  }
}

}  // namespace uroce::check
