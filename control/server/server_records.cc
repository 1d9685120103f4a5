// Records from programs: control receives those without descriptors; a helper receives one with
// descriptors, and meanwhile its program's further commands wait, as for an address.

#include <cerrno>
#include <string>
#include <utility>

#include "base/sockets/record_limits.h"
#include "control/server/server.h"

namespace uroce::control {
namespace {

constexpr int kSessionRecordsMax = 16;  // of one session in one turn

void give(Conversation& conversation, ReceiveStatus receipt, Record record) {
  switch (receipt) {
    case ReceiveStatus::kRecord:
      return conversation.receive(std::move(record));
    case ReceiveStatus::kNoDescriptorsLeft:
      return conversation.receive_without_descriptors(record);
    case ReceiveStatus::kTooLong:
      return conversation.refuse(EMSGSIZE,
                                 "a record has at most " + std::to_string(kRecordMax) + " bytes");
    case ReceiveStatus::kTooManyDescriptors:
      return conversation.refuse(
          EMSGSIZE, "a record has at most " + std::to_string(kDescriptorsMax) + " descriptors");
    case ReceiveStatus::kClosed:
    case ReceiveStatus::kNothing:
    case ReceiveStatus::kDescriptors:
      return conversation.end();
  }
}

}  // namespace

void Server::take(Connection& connection, ReceiveStatus receipt, Record record) {
  run_command(connection,
              [&](Conversation& conversation) { give(conversation, receipt, std::move(record)); });
}

void Server::expect(std::uint64_t id, CommandPage* page) {
  if (page != nullptr && page_poller_.expect(id, *page)) {
    page->start_polling();
  }
}

// Serves the program with a request in its page, if there is one.
void Server::serve_page_request() {
  const auto at = connections_.find(page_poller_.next());
  if (at == connections_.end()) {
    return;
  }
  heartbeat_.beat();
  if (at->second.interest != EPOLLIN) {
    page_poller_.forget(at->first);  // it waits on the socket now
    return;
  }
  within_memory(at->first, [&] { on_connection(at, EPOLLIN); });
}

// Handles the request in a page, and answers it there if possible. A program that asks why its
// completion failed gets the worker's report, as in run().
void Server::serve_page(std::uint64_t id, Connection& connection, CommandPage& page) {
  if (card_.engine().notices_wait()) {
    within_memory(kNoSession, [this] { on_notices(); });
  }
  Conversation& conversation = *connection.conversation;
  take(connection, ReceiveStatus::kRecord, page.take());
  std::deque<Record>& outbox = conversation.outbox();
  if (outbox.size() != 1 || conversation.answering() || conversation.finished()) {
    page.reply_by_socket();
  } else if (page.answer(outbox.front(), page_poller_.expect(id, page))) {
    outbox.pop_front();
  }
}

void Server::receive(std::uint64_t id, Connection& connection) {
  Conversation& conversation = *connection.conversation;
  const Time begun = card_.now();
  for (int i = 0; i < kSessionRecordsMax && card_.now() - begun <= ThrottledUsers::kLongCommand;
       ++i) {
    if (conversation.finished() || conversation.waiting() || connection.fetching ||
        !flush(connection)) {
      return;
    }
    if (conversation.answering()) {
      return answer_more(conversation);
    }
    CommandPage* page = conversation.session().command_page();
    if (page != nullptr && page->has_request()) {
      return serve_page(id, connection, *page);
    }
    Record record;
    const ReceiveStatus receipt = peek_plain_record(connection.socket->get(), &record);
    if (receipt == ReceiveStatus::kNothing) {
      return;
    }
    if (receipt == ReceiveStatus::kDescriptors) {
      return fetch(id, connection);
    }
    take(connection, receipt, std::move(record));
    (void)flush(connection);  // the program continues while the record is discarded
    if (receipt != ReceiveStatus::kClosed) {
      discard_record(connection.socket->get());
    }
  }
}

void Server::fetch(std::uint64_t id, Connection& connection) {
  Conversation& conversation = *connection.conversation;
  const User& user = conversation.session().account()->user();
  if (Status asked = inbox_->fetch(*services_.helpers, user, connection.socket, id); !asked) {
    conversation.refuse(asked.error().code, asked.error().message);
    (void)flush(connection);
    return;
  }
  connection.fetching = true;
}

void Server::on_helpers() {
  services_.helpers->clear_event();
  for (Inbox::Arrival& arrival : inbox_->take()) {
    const auto at = connections_.find(arrival.tag);
    if (at == connections_.end()) {
      continue;  // its program has ended, or got an error after a timeout
    }
    at->second.fetching = false;
    at->second.arrival = std::move(arrival);
    within_memory(at->first, [&] { serve_in_turn(at); });
  }
  resume_waiting();
}

// Notifies the programs that wait for a helper that hangs.
void Server::give_up_fetches() {
  for (auto at = connections_.begin(), next = at; at != connections_.end(); at = next) {
    next = std::next(at);
    const User& user = at->second.conversation->session().account()->user();
    if (!at->second.fetching || services_.helpers->check(user)) {
      continue;
    }
    at->second.fetching = false;
    within_memory(at->first, [&] {
      run_command(at->second, [](Conversation& conversation) {
        conversation.refuse(
            ETIMEDOUT,
            "a descriptor that came with the record couldn't be received and looked at: what it "
            "belongs to, or another that this user has passed, doesn't answer");
      });
      serve_in_turn(at);
    });
  }
}

}  // namespace uroce::control
