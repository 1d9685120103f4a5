#pragma once

// The program's end of the command page, through which it sends commands without a system call
// while the daemon polls it (abi/command_page.h). One request at a time: the caller holds the
// client's mutex.

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "abi/command_page.h"
#include "base/relax.h"

namespace uroce::shim {

class CommandPage {
 public:
  // The memory must outlive the use of this object.
  void attach(abi::CommandPage* page) { page_ = page; }

  // Sends a request. False: the page isn't polled, or the request is too long: use the socket.
  [[nodiscard]] bool ask(std::span<const std::byte> request) {
    if (page_ == nullptr || request.size() > abi::kPageRequestMax ||
        page_->state.load(std::memory_order_relaxed) != State::kPolled) {
      return false;
    }
    std::memcpy(page_->request, request.data(), request.size());
    page_->request_length.store(static_cast<std::uint32_t>(request.size()),
                                std::memory_order_relaxed);
    State expected = State::kPolled;
    return page_->state.compare_exchange_strong(expected, State::kRequested);
  }

  // Polls for the reply while `more_time()`, which is called now and then, is true. False: the
  // reply comes through the socket; call forget() once it has been received.
  template <typename MoreTime>
  [[nodiscard]] bool wait(MoreTime&& more_time) {
    for (int looks = 1; state() == State::kRequested; ++looks) {
      if (looks % kPollsBeforeYield != 0) {
        relax_processor();
        continue;
      }
      State expected = State::kRequested;
      if (!more_time() && page_->state.compare_exchange_strong(expected, State::kProgramSleeps)) {
        return false;
      }
      sched_yield();
    }
    return state() != State::kReplyBySocket;
  }
  // Copies as much of the reply as fits; returns its length.
  std::size_t answer(std::span<std::byte> reply) const {
    const std::size_t length =
        std::min(page_->reply_length.load(std::memory_order_relaxed), abi::kPageReplyMax);
    std::memcpy(reply.data(), page_->reply, std::min(length, reply.size()));
    return length;
  }
  void forget() { page_->state.store(State::kNotPolled, std::memory_order_release); }

 private:
  using State = abi::PageState;
  // Polls after which the thread yields: a microsecond or two.
  static constexpr int kPollsBeforeYield = 32;

  [[nodiscard]] State state() const { return page_->state.load(std::memory_order_acquire); }

  abi::CommandPage* page_ = nullptr;
};

}  // namespace uroce::shim
