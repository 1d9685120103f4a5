#include "apps/capture/error_window.h"

#include <algorithm>
#include <utility>

namespace uroce::capture {

void ErrorWindow::hand_over(Waiting& waiting, const Take& take) {
  if (waiting.state == State::kWanted) {
    take(waiting.record, waiting.failures);
    waiting.state = State::kHandedOver;
  }
}

void ErrorWindow::add(Record packet, const Take& take) {
  waiting_.push_back({.record = std::move(packet),
                      .failures = std::exchange(without_packet_, {}),
                      .state = wanted_next_ > 0 ? State::kWanted : State::kNotWanted});
  wanted_next_ -= wanted_next_ > 0 ? 1 : 0;
  while (waiting_.size() > packets_) {
    hand_over(waiting_.front(), take);
    waiting_.pop_front();
  }
}

void ErrorWindow::fail(std::uint32_t qpn, std::string sentence, Time now) {
  ++failures_;
  failed_ = now;
  wanted_next_ = packets_;
  for (Waiting& one : waiting_) {
    one.state = one.state == State::kNotWanted ? State::kWanted : one.state;
  }
  const auto unwritten = [](const Waiting& one) { return one.state == State::kWanted; };
  auto place = std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const Waiting& one) {
    return unwritten(one) && is_of_queue_pair(one.record, qpn);
  });
  if (place == waiting_.rend()) {
    place = std::find_if(waiting_.rbegin(), waiting_.rend(), unwritten);
  }
  (place == waiting_.rend() ? without_packet_ : place->failures).push_back(std::move(sentence));
}

void ErrorWindow::release(Time now, bool all, const Take& take) {
  if (!all && (!failed_ || now < *failed_ + kTimeout)) {
    return;
  }
  failed_.reset();
  wanted_next_ = 0;
  for (Waiting& one : waiting_) {
    hand_over(one, take);
  }
}

bool ErrorWindow::knows(std::uint32_t qpn) const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [qpn](const Waiting& one) { return is_of_queue_pair(one.record, qpn); });
}

bool ErrorWindow::is_complete() const { return failures_ > 0 && wanted_next_ == 0; }

}  // namespace uroce::capture
