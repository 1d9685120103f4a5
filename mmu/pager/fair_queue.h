#pragma once

// What waits for its turn, user by user: however much one user has waiting, what another adds waits
// for one thing of each. Of one user's the oldest comes first.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "shares/user.h"

namespace uroce {

template <typename Item>
class FairQueue {
 public:
  void push(const User& user, Item item) { waiting_[user].push_back(std::move(item)); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  // Who have something waiting.
  [[nodiscard]] std::size_t users() const { return waiting_.size(); }

  // The oldest of the user whose turn it is. REQUIRES: !empty()
  Item next() {
    const auto behind = waiting_.upper_bound(last_);
    const auto user = behind != waiting_.end() ? behind : waiting_.begin();
    last_ = user->first;
    Item item = std::move(user->second.front());
    user->second.pop_front();
    if (user->second.empty()) {
      waiting_.erase(user);
    }
    return item;
  }

  // Those of the user's that are `chosen` wait no more.
  template <typename Chosen>
  std::vector<Item> take_if(const User& user, const Chosen& chosen) {
    std::vector<Item> taken;
    const auto at = waiting_.find(user);
    if (at == waiting_.end()) {
      return taken;
    }
    std::deque<Item>& items = at->second;
    const auto first = std::stable_partition(items.begin(), items.end(),
                                             [&](const Item& item) { return !chosen(item); });
    std::move(first, items.end(), std::back_inserter(taken));
    items.erase(first, items.end());
    if (items.empty()) {
      waiting_.erase(at);
    }
    return taken;
  }

 private:
  std::map<User, std::deque<Item>> waiting_;  // none is empty
  User last_;
};

}  // namespace uroce
