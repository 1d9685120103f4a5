#pragma once

// The program's end of the page by which it asks without a system call while the daemon looks
// there (abi/command_page.h). One request at a time: whoever calls holds the client's mutex.

#include <emmintrin.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "abi/command_page.h"

namespace uroce::shim {

class CommandPage {
 public:
  // The memory stays as long as this asks.
  void attach(abi::CommandPage* page) { page_ = page; }

  // False: nobody looks, or it is too long; the socket is to be asked.
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

  // Waits for the answer to what was asked while `more_time()`, which is asked now and then. False:
  // the answer comes by the socket; forget() once it is there.
  template <typename MoreTime>
  [[nodiscard]] bool wait(MoreTime&& more_time) {
    for (int looks = 1; state() == State::kRequested; ++looks) {
      if (looks % kPollsBeforeYield != 0) {
        _mm_pause();
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
  // Copies as much of the answer as there is room for; returns how long it is.
  std::size_t answer(std::span<std::byte> reply) const {
    const std::size_t length =
        std::min(page_->reply_length.load(std::memory_order_relaxed), abi::kPageReplyMax);
    std::memcpy(reply.data(), page_->reply, std::min(length, reply.size()));
    return length;
  }
  void forget() { page_->state.store(State::kNotPolled, std::memory_order_release); }

 private:
  using State = abi::PageState;
  // Looks after which the processor is offered to others: a microsecond or two.
  static constexpr int kPollsBeforeYield = 32;

  [[nodiscard]] State state() const { return page_->state.load(std::memory_order_acquire); }

  abi::CommandPage* page_ = nullptr;
};

}  // namespace uroce::shim
