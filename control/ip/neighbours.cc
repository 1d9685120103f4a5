#include "control/ip/neighbours.h"

#include <algorithm>

namespace uroce::control {

Neighbours::Answer Neighbours::resolve(const LinkAddress& address, Time now, EtherAddress* mac) {
  auto found = entries_.find(address);
  if (found != entries_.end() && found->second.state != State::kAsking &&
      found->second.deadline <= now) {
    entries_.erase(found);
    found = entries_.end();
  }
  if (found == entries_.end()) {
    if (!make_room()) {
      return Answer::kFull;
    }
    entries_[address] = Entry{.deadline = now};
    return Answer::kPending;
  }
  switch (found->second.state) {
    case State::kAsking:
      return Answer::kPending;
    case State::kUnreachable:
      return Answer::kUnreachable;
    case State::kKnown:
      break;
  }
  *mac = found->second.mac;
  return Answer::kKnown;
}

bool Neighbours::learn(const LinkAddress& address, const EtherAddress& mac, Time now,
                       bool addressed_to_us) {
  const auto found = entries_.find(address);
  if (found == entries_.end()) {
    if (addressed_to_us && make_room()) {
      entries_[address] = Entry{.state = State::kKnown, .mac = mac, .deadline = now + kKnownFor};
    }
    return false;
  }
  Entry& entry = found->second;
  const bool answered = entry.state != State::kKnown;
  entry = Entry{.state = State::kKnown, .mac = mac, .deadline = now + kKnownFor};
  return answered;
}

std::vector<LinkAddress> Neighbours::due(Time now, bool* settled) {
  std::vector<LinkAddress> questions;
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    if (entry.deadline > now) {
      ++at;
    } else if (entry.state != State::kAsking) {
      at = entries_.erase(at);
    } else if (entry.attempts < kAttemptsMax) {
      ++entry.attempts;
      entry.deadline = now + kAttemptInterval;
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
  std::erase_if(entries_, [](const auto& entry) { return entry.second.state != State::kAsking; });
  for (auto& [address, entry] : entries_) {
    entry = Entry{.deadline = now};
  }
}

Time Neighbours::next_deadline() const {
  Time earliest = kNever;
  for (const auto& [address, entry] : entries_) {
    earliest = std::min(earliest, entry.deadline);
  }
  return earliest;
}

// A full cache loses what is known but not waited for, oldest first.
bool Neighbours::make_room() {
  if (entries_.size() < kEntriesMax) {
    return true;
  }
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.state != State::kAsking &&
        (oldest == entries_.end() || at->second.deadline < oldest->second.deadline)) {
      oldest = at;
    }
  }
  if (oldest == entries_.end()) {
    return false;
  }
  entries_.erase(oldest);
  return true;
}

}  // namespace uroce::control
