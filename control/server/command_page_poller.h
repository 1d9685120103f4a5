#pragma once

// Polls the command pages (abi/command_page.h) of programs from which control expects the next
// command. Polling instead of sleeping, since a wake-up takes longer than most commands. Control
// thread only.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "control/sessions/command_page.h"

namespace uroce::control {

class CommandPagePoller {
 public:
  // Pages that are polled at a time. Further programs use the socket.
  static constexpr std::size_t kExpectedMax = 8;

  // Adds the page of the connection `id`, which must be removed by forget() before it is destroyed.
  // The program may use it (CommandPage::start_polling) only if this returns true; false: there are
  // too many.
  bool expect(std::uint64_t id, CommandPage& page) {
    if (find(id) == count_) {
      if (count_ == kExpectedMax) {
        return false;
      }
      expected_[count_++] = {id, &page};
    }
    return true;
  }
  void forget(std::uint64_t id) {
    if (const std::size_t at = find(id); at != count_) {
      (void)expected_[at].page->stop_polling();
      expected_[at] = expected_[--count_];
    }
  }

  // A connection with a request, round-robin; 0: none.
  [[nodiscard]] std::uint64_t next() {
    for (std::size_t i = 0; i < count_; ++i) {
      last_ = (last_ + 1) % count_;
      const Expected& one = expected_[last_];
      if (one.page->has_request()) {
        return one.id;
      }
    }
    return 0;
  }
  [[nodiscard]] bool any_request() const {
    return std::any_of(expected_.begin(), expected_.begin() + count_,
                       [](const Expected& one) { return one.page->has_request(); });
  }

  // Stops polling all pages but those with a request; false if there are any.
  [[nodiscard]] bool stop_all() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!expected_[i].page->stop_polling()) {
        expected_[kept++] = expected_[i];
      }
    }
    count_ = kept;
    return kept == 0;
  }

 private:
  struct Expected {
    std::uint64_t id;
    CommandPage* page;
  };
  // Returns count_ if there is none.
  [[nodiscard]] std::size_t find(std::uint64_t id) const {
    std::size_t at = 0;
    while (at < count_ && expected_[at].id != id) {
      ++at;
    }
    return at;
  }

  std::array<Expected, kExpectedMax> expected_;
  std::size_t count_ = 0;
  std::size_t last_ = 0;
};

}  // namespace uroce::control
