#include "control/ip/groups/group_answers.h"

#include <algorithm>

namespace uroce::control {

void GroupAnswers::plan(const Answer& answer, Time now, Duration within) {
  const Time at = now + std::uniform_int_distribution<Duration>(0, within)(random_);
  const auto [found, is_new] = planned_.try_emplace(answer, at);
  if (!is_new) {
    if (found->second <= at) {
      return;
    }
    by_time_.erase({found->second, answer});
    found->second = at;
  }
  by_time_.emplace(at, answer);
}

std::vector<GroupAnswers::Answer> GroupAnswers::due(Time now) {
  std::vector<Answer> answers;
  while (now >= next_deadline() && answers.size() < kBatch) {
    answers.push_back(by_time_.begin()->second);
    planned_.erase(answers.back());
    by_time_.erase(by_time_.begin());
  }
  if (answers.size() == kBatch) {
    not_before_ = now + kPause;
  }
  return answers;
}

Time GroupAnswers::next_deadline() const {
  return by_time_.empty() ? kNever : std::max(by_time_.begin()->first, not_before_);
}

}  // namespace uroce::control
