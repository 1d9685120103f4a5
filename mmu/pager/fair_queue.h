#pragma once

// A queue that serves users round-robin: however much one user has queued, a new item waits for one
// item of each other user. The items of one user are served in FIFO order.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "shares/user.h"

namespace uroce {

template <typename Item, typename Key = User>
class FairQueue {
 public:
  void push(const Key& user, Item item) { waiting_[user].push_back(std::move(item)); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  // The number of users with queued items.
  [[nodiscard]] std::size_t users() const { return waiting_.size(); }

  // Takes the oldest item of the next user. REQUIRES: !empty()
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

  // Removes the items of the user for which `chosen` is true.
  template <typename Chosen>
  std::vector<Item> take_if(const Key& user, const Chosen& chosen) {
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
  std::map<Key, std::deque<Item>> waiting_;  // none is empty
  Key last_{};
};

}  // namespace uroce
