#include "dataplane/qp/recovery/repair.h"

#include <algorithm>

#include "base/check.h"

namespace uroce {

void Repair::clear() {
  count_ = 0;
  waiting_ = 0;
  probe_at_ = kNever;
  probing_ = false;
}

void Repair::heard(Time now) {
  heard_at_ = now;
  if (probe_at_ != kNever) {
    schedule_probe(now);
  }
}

void Repair::advanced(std::uint32_t unacked_psn, Time now) {
  probing_ = false;
  back_off_ = 0;
  while (count_ != 0 && psn_difference(unacked_psn, holes_[0].psn) > 0 &&
         shrink(0, unacked_psn, now)) {
  }
}

// Removes the part of a hole before `psn`, which has arrived; true if the whole hole is closed.
bool Repair::shrink(std::uint32_t index, std::uint32_t psn, Time now) {
  Hole& hole = holes_[index];
  if (hole.tries == 1 && hole.waiting == 0) {
    repair_trip_.sample(now - hole.sent_at);
  }
  if (psn_difference(psn, hole.end()) >= 0) {
    remove(index);
    return true;
  }
  // Part of a READ has been answered: the rest is on its way, and isn't measured.
  hole.count = psn_distance(psn, hole.end());
  hole.psn = psn;
  hole.sent_at = now;
  hole.tries += hole.tries == 1 ? 1 : 0;
  return false;
}

bool Repair::filled(std::uint32_t psn, Time now) {
  Hole* const hole = find(psn);
  return hole != nullptr &&
         shrink(static_cast<std::uint32_t>(hole - holes_.data()), psn_add(psn, 1), now);
}

std::uint32_t Repair::find_in(std::uint32_t psn, std::uint32_t end) const {
  if (is_behind_all(psn)) {
    return count_;
  }
  const auto found = std::find_if(holes_.begin(), holes_.begin() + count_, [&](const Hole& hole) {
    return psn_distance(psn, hole.psn) < psn_distance(psn, end);
  });
  return static_cast<std::uint32_t>(found - holes_.begin());
}

Hole* Repair::find(std::uint32_t psn) {
  if (is_behind_all(psn)) {
    return nullptr;
  }
  const auto end = holes_.begin() + count_;
  const auto found =
      std::find_if(holes_.begin(), end, [&](const Hole& hole) { return hole.psn == psn; });
  return found == end ? nullptr : &*found;
}

bool Repair::add(std::uint32_t psn, std::uint32_t count) {
  if (find(psn) != nullptr) {
    return true;
  }
  if (count_ == kHolesMax) {
    return false;
  }
  std::uint32_t place = count_++;
  for (; place > 0 && psn_difference(holes_[place - 1].psn, psn) > 0; --place) {
    holes_[place] = holes_[place - 1];
  }
  holes_[place] = {.psn = psn, .count = count, .waiting = 1};
  ++waiting_;
  return true;
}

bool Repair::add_behind(std::uint32_t psn, std::uint32_t newest) {
  Hole* const hole = find(psn);
  if (hole == nullptr) {
    return add(psn, 1);
  }
  wait_if_behind(*hole, newest);
  return true;
}

bool Repair::again_behind(std::uint32_t psn, std::uint32_t end, std::uint32_t newest) {
  const std::uint32_t place = find_in(psn, end);
  if (place == count_) {
    return false;
  }
  wait_if_behind(holes_[place], newest);
  return true;
}

bool Repair::overtaken(std::uint32_t psn) const {
  return std::any_of(holes_.begin(), holes_.begin() + count_,
                     [psn](const Hole& hole) { return hole.lost_again(psn); });
}

void Repair::wait_if_behind(Hole& hole, std::uint32_t newest) {
  if (hole.lost_again(newest)) {
    hole.waiting = 1;
    ++waiting_;
  }
}

void Repair::add_again(std::uint32_t psn, std::uint32_t count) {
  Hole* const hole = find(psn);
  if (hole == nullptr) {
    (void)add(psn, count);
    return;
  }
  waiting_ += 1 - hole->waiting;
  hole->waiting = 1;
}

Hole& Repair::next_waiting() {
  const auto end = holes_.begin() + count_;
  const auto found =
      std::find_if(holes_.begin(), end, [](const Hole& hole) { return hole.waiting != 0; });
  UROCE_CHECK(found != end);
  return *found;
}

void Repair::retransmitted(Hole& hole, std::uint32_t high_psn, Time now) {
  hole.waiting = 0;
  hole.behind = high_psn;
  hole.sent_at = now;
  ++hole.tries;
  --waiting_;
}

void Repair::remove(std::uint32_t index) {
  waiting_ -= holes_[index].waiting;
  std::copy(holes_.begin() + index + 1, holes_.begin() + count_, holes_.begin() + index);
  --count_;
}

void Repair::watch(bool outstanding, Time now) {
  put_off_ = 0;
  if (!outstanding || !trip_.known()) {
    probe_at_ = kNever;
    return;
  }
  schedule_probe(now);
}

// REQUIRES: a round trip was measured.
void Repair::schedule_probe(Time now) {
  probe_at_ = now + (trip_.probe_timeout() << std::min(back_off_ + put_off_, kBackOffMax));
}

// When a hole that was retransmitted should have been filled.
Time Repair::repair_at(const Hole& hole) const {
  const RoundTrip& trip = repair_trip_.known() ? repair_trip_ : trip_;
  return std::max(hole.sent_at, heard_at_) + ((trip.known() ? trip.repair_timeout() : kTimeoutFirst)
                                              << std::min(hole.tries - 1, kBackOffMax));
}

Time Repair::deadline() const {
  Time next = probe_at_;
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (holes_[i].waiting == 0) {
      next = std::min(next, repair_at(holes_[i]));
    }
  }
  return next;
}

bool Repair::on_time(Time now, bool may_probe) {
  for (std::uint32_t i = 0; i < count_; ++i) {
    Hole& hole = holes_[i];
    if (hole.waiting == 0 && repair_at(hole) <= now) {
      hole.waiting = 1;
      ++waiting_;
    }
  }
  if (probe_at_ > now) {
    return false;
  }
  ++(may_probe ? back_off_ : put_off_);
  probing_ |= may_probe;
  schedule_probe(now);
  return may_probe;
}

}  // namespace uroce
