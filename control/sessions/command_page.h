#pragma once

// The daemon's end of a program's command page (abi/command_page.h). The program can write every
// byte of it at any time: a request is copied before it is parsed, and an undefined state counts as
// no request. Control thread only.

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

  // From now on the program may write a request here.
  void start_polling() {
    State expected = state();  // usually kPolled already: then the cache line isn't written
    if (expected == State::kNotPolled) {
      page_.state.compare_exchange_strong(expected, State::kPolled);
    }
  }
  // From now on the program uses the socket. False: it has written a request meanwhile, which must
  // be served.
  [[nodiscard]] bool stop_polling() {
    State expected = State::kPolled;
    return page_.state.compare_exchange_strong(expected, State::kNotPolled) ||
           !has_request_in(expected);
  }
  [[nodiscard]] bool has_request() const { return has_request_in(state()); }
  // Copies the request, which must be answered next. REQUIRES: has_request()
  [[nodiscard]] Record take() {
    const std::uint32_t length = std::min<std::uint32_t>(
        page_.request_length.load(std::memory_order_relaxed), abi::kPageRequestMax);
    Record record;
    record.bytes.assign(page_.request, page_.request + length);
    return record;
  }
  // Writes the reply; `looks`: the next request may be written here, too. False: the reply must be
  // sent through the socket, now or later, because it doesn't fit or the program already sleeps
  // there.
  [[nodiscard]] bool answer(const Record& reply, bool looks) {
    if (reply.bytes.size() > abi::kPageReplyMax || !reply.descriptors.empty()) {
      return reply_by_socket();
    }
    std::memcpy(page_.reply, reply.bytes.data(), reply.bytes.size());
    page_.reply_length.store(static_cast<std::uint32_t>(reply.bytes.size()),
                             std::memory_order_relaxed);
    State expected = State::kRequested;
    const State next = looks ? State::kPolled : State::kNotPolled;
    return page_.state.compare_exchange_strong(expected, next) || reply_by_socket();
  }
  // Marks that the reply goes through the socket. Always returns false, for answer().
  bool reply_by_socket() {
    page_.state.store(State::kReplyBySocket, std::memory_order_release);
    return false;
  }

 private:
  using State = abi::PageState;

  static bool has_request_in(State state) {
    return state == State::kRequested || state == State::kProgramSleeps;
  }
  [[nodiscard]] State state() const { return page_.state.load(std::memory_order_acquire); }

  abi::CommandPage& page_;
};

}  // namespace uroce::control
