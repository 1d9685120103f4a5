#pragma once

// How many of something limited a worker has, in all and for each user's queue pairs. One thread.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace uroce {

class CountsByUser {
 public:
  [[nodiscard]] std::uint32_t total() const { return total_; }
  [[nodiscard]] std::uint32_t of(std::uint64_t user) const {
    const auto found = by_user_.find(user);
    return found == by_user_.end() ? 0 : found->second;
  }

  void add(std::uint64_t user) {
    ++total_;
    ++by_user_[user];
  }
  // REQUIRES: the user has as many.
  void remove(std::uint64_t user, std::uint32_t count) {
    total_ -= count;
    by_user_[user] -= count;
  }
  // The user has no queue pair any more: its place goes once it has none of these. Until then it
  // stays, so that the next one takes no memory.
  void forget(std::uint64_t user) {
    if (of(user) == 0) {
      by_user_.erase(user);
    }
  }

  // The user who has most, if that is more than twice what this one has.
  [[nodiscard]] std::optional<std::uint64_t> who_exceeds(std::uint64_t user) const {
    const auto most =
        std::max_element(by_user_.begin(), by_user_.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == by_user_.end() || most->second <= 2 * of(user)) {
      return std::nullopt;
    }
    return most->first;
  }

 private:
  std::uint32_t total_ = 0;
  std::map<std::uint64_t, std::uint32_t> by_user_;  // those who have, or had, some
};

}  // namespace uroce
