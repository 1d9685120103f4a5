#include "control/ip/neighbours/neighbours.h"

#include <algorithm>

namespace uroce::control {

Neighbours::Answer Neighbours::resolve(const LinkAddress& address, Time now, EtherAddress* mac,
                                       Asker asker) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) {
    return start(address, now, asker);
  }
  Entry& entry = found->second;
  const bool is_over = entry.deadline <= now;
  switch (entry.state) {
    case State::kAsking:
      return Answer::kPending;
    case State::kUnreachable:
      if (is_over) {
        forget(found);
        return start(address, now, asker);
      }
      return Answer::kUnreachable;
    case State::kOutdated:
      // It has answered before, so it neither counts against a share nor evicts another entry.
      if (unanswered_ == kUnansweredMax) {
        return Answer::kFull;
      }
      ask(address, now, asker);
      return Answer::kPending;
    case State::kKnown:
      if (is_over) {
        entry.state = State::kConfirming;
        entry.attempts = 0;
        entry.deadline = now;
        ++confirming_;
      }
      break;
    case State::kConfirming:
      break;
  }
  *mac = entry.mac;
  return Answer::kKnown;
}

// Requests an address that isn't in the cache.
Neighbours::Answer Neighbours::start(const LinkAddress& address, Time now, Asker asker) {
  if (!may_ask(asker)) {
    return Answer::kFull;
  }
  make_room();
  ask(address, now, asker);
  return Answer::kPending;
}

bool Neighbours::learn(const LinkAddress& address, const EtherAddress& mac, Time now,
                       bool addressed_to_us) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) {
    if (addressed_to_us) {
      make_room();
      entries_[address] = Entry{.state = State::kKnown, .mac = mac, .deadline = now + kKnownFor};
    }
    return false;
  }
  Entry& entry = found->second;
  const bool answered = is_unanswered(entry.state);
  on_settled(entry);
  entry = Entry{.state = State::kKnown, .mac = mac, .deadline = now + kKnownFor};
  return answered;
}

std::vector<LinkAddress> Neighbours::due(Time now, bool* settled) {
  std::vector<LinkAddress> questions;
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    const bool confirming = entry.state == State::kConfirming;
    const bool asks_again = entry.attempts < (confirming ? kConfirmAttemptsMax : kAttemptsMax);
    if (!has_deadline(entry.state) || entry.deadline > now) {
      ++at;
    } else if (entry.state == State::kUnreachable || (confirming && !asks_again)) {
      at = forget(at);  // nobody waits for it
    } else if (asks_again) {
      ++entry.attempts;
      entry.deadline = now + (confirming ? kConfirmInterval : kAttemptInterval);
      questions.push_back(at->first);
      ++at;
    } else {
      entry.state = State::kUnreachable;
      entry.deadline = now + kUnreachableFor;
      *settled = true;
      ++at;
    }
  }
  return questions;
}

void Neighbours::forget_answers(Time now) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    if (entry.state == State::kUnreachable) {
      at = forget(at);
      continue;
    }
    if (entry.state == State::kAsking) {
      entry.attempts = 0;
    } else {
      on_settled(entry);
      entry.state = State::kOutdated;
    }
    entry.deadline = now;
    ++at;
  }
}

Time Neighbours::next_deadline() const {
  if (unanswered_ + confirming_ == 0) {
    return kNever;
  }
  Time earliest = kNever;
  for (const auto& [address, entry] : entries_) {
    earliest = has_deadline(entry.state) ? std::min(earliest, entry.deadline) : earliest;
  }
  return earliest;
}

bool Neighbours::may_ask(Asker asker) const {
  const auto found = unanswered_of_.find(asker);
  const std::size_t own = found == unanswered_of_.end() ? 0 : found->second;
  const std::size_t others = unanswered_ - own;
  return own < (kUnansweredMax - others + 1) / 2;  // never, if all allowed requests are outstanding
}

// REQUIRES: the address is an outdated entry, or isn't in the cache, which has room for it.
void Neighbours::ask(const LinkAddress& address, Time now, Asker asker) {
  entries_[address] = Entry{.deadline = now, .asker = asker};
  ++unanswered_;
  ++unanswered_of_[asker];
}

// An address requested by the user has been resolved or dropped.
void Neighbours::on_answer(Asker asker) {
  --unanswered_;
  const auto found = unanswered_of_.find(asker);
  if (--found->second == 0) {
    unanswered_of_.erase(found);
  }
}

// The entry is about to be known, or dropped.
void Neighbours::on_settled(const Entry& entry) {
  if (is_unanswered(entry.state)) {
    on_answer(entry.asker);
  } else if (entry.state == State::kConfirming) {
    --confirming_;
  }
}

Neighbours::Entries::iterator Neighbours::forget(Entries::iterator at) {
  on_settled(at->second);
  return entries_.erase(at);
}

// A full cache drops known entries, oldest first. They are at least half of it.
void Neighbours::make_room() {
  if (entries_.size() < kEntriesMax) {
    return;
  }
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (!is_unanswered(at->second.state) &&
        (oldest == entries_.end() || at->second.deadline < oldest->second.deadline)) {
      oldest = at;
    }
  }
  forget(oldest);
}

}  // namespace uroce::control
