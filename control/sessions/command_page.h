#pragma once

// The daemon's end of the page by which one program asks without a system call
// (abi/command_page.h). Every byte of it is the program's too: a request is copied first, and a
// state that the protocol doesn't have is nobody's request. Control thread only.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "abi/command_page.h"
#include "base/sockets/record_socket.h"

namespace uroce::control {

class CommandPage {
 public:
  // `page` is the session's memory.
  explicit CommandPage(abi::CommandPage& page) : page_(page) {}

  // From now on the program may ask here.
  void look() {
    State expected = state();  // mostly kLooking already: then the line isn't written
    if (expected == State::kNobodyLooks) {
      page_.state.compare_exchange_strong(expected, State::kLooking);
    }
  }
  // From now on it asks by the socket. False: it has asked here meanwhile, and is to be served.
  [[nodiscard]] bool look_away() {
    State expected = State::kLooking;
    return page_.state.compare_exchange_strong(expected, State::kNobodyLooks) ||
           !is_asked(expected);
  }
  [[nodiscard]] bool asked() const { return is_asked(state()); }
  // A copy of the request, which is to be answered next: until then it is asked. REQUIRES: asked()
  [[nodiscard]] Record take() {
    const std::uint32_t length = std::min<std::uint32_t>(
        page_.request_length.load(std::memory_order_relaxed), abi::kPageRequestMax);
    Record record;
    record.bytes.assign(page_.request, page_.request + length);
    return record;
  }
  // Answers what was taken; `looks`: the next request may come here, too. False: the socket has to
  // answer, now or later, because the answer doesn't fit or the program sleeps there already.
  [[nodiscard]] bool answer(const Record& reply, bool looks) {
    if (reply.bytes.size() > abi::kPageReplyMax || !reply.descriptors.empty()) {
      return answer_in_socket();
    }
    std::memcpy(page_.reply, reply.bytes.data(), reply.bytes.size());
    page_.reply_length.store(static_cast<std::uint32_t>(reply.bytes.size()),
                             std::memory_order_relaxed);
    State expected = State::kAsked;
    const State next = looks ? State::kLooking : State::kNobodyLooks;
    return page_.state.compare_exchange_strong(expected, next) || answer_in_socket();
  }
  // The socket has to answer what was taken. Always false, as answer() says that.
  bool answer_in_socket() {
    page_.state.store(State::kInSocket, std::memory_order_release);
    return false;
  }

 private:
  using State = abi::PageState;

  static bool is_asked(State state) { return state == State::kAsked || state == State::kWaits; }
  [[nodiscard]] State state() const { return page_.state.load(std::memory_order_acquire); }

  abi::CommandPage& page_;
};

}  // namespace uroce::control
