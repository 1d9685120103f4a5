// Records of programs: control takes those that are only bytes; one with descriptors is a helper's
// to receive, and its program waits for it like for an address.

#include <cerrno>
#include <string>
#include <utility>

#include "base/record_limits.h"
#include "control/server/server.h"

namespace uroce::control {
namespace {

constexpr int kSessionRecordsMax = 16;  // of one session in one turn

void give(Conversation& conversation, Receipt receipt, Record record) {
  switch (receipt) {
    case Receipt::kRecord:
      return conversation.receive(std::move(record));
    case Receipt::kNoDescriptorsLeft:
      return conversation.receive_without_descriptors(record);
    case Receipt::kTooLong:
      return conversation.refuse(EMSGSIZE,
                                 "a record has at most " + std::to_string(kRecordMax) + " bytes");
    case Receipt::kTooManyDescriptors:
      return conversation.refuse(
          EMSGSIZE, "a record has at most " + std::to_string(kDescriptorsMax) + " descriptors");
    case Receipt::kClosed:
    case Receipt::kNothing:
    case Receipt::kDescriptors:
      return conversation.end();
  }
}

}  // namespace

void Server::take(Connection& connection, Receipt receipt, Record record) {
  connection.serving = true;
  give(*connection.conversation, receipt, std::move(record));
  connection.serving = false;
}

void Server::receive(std::uint64_t id, Connection& connection) {
  Conversation& conversation = *connection.conversation;
  const Time begun = card_.now();
  for (int i = 0; i < kSessionRecordsMax && card_.now() - begun <= DearUsers::kDear; ++i) {
    if (conversation.finished() || conversation.waiting() || connection.fetch_until != 0 ||
        !flush(connection)) {
      return;
    }
    if (conversation.answering()) {
      return answer_more(conversation);
    }
    Record record;
    const Receipt receipt = receive_plain_record(connection.socket->get(), &record);
    if (receipt == Receipt::kNothing) {
      return;
    }
    if (receipt == Receipt::kDescriptors) {
      return fetch(id, connection);
    }
    take(connection, receipt, std::move(record));
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
  connection.fetch_until = card_.now() + Helpers::kPatience;
  fetches_.push_back({.deadline = connection.fetch_until, .connection = id});
}

void Server::on_helpers() {
  services_.helpers->quieten();
  for (Inbox::Arrival& arrival : inbox_->take()) {
    const auto at = connections_.find(arrival.tag);
    if (at == connections_.end()) {
      continue;  // its program ended, or was told that it takes too long
    }
    at->second.fetch_until = 0;
    within_memory(arrival.tag, [&] {
      take(at->second, arrival.receipt, std::move(*arrival.record));
      serve(at);
    });
  }
  forget_ended_fetches();
  resume_waiting();
}

void Server::forget_ended_fetches() {
  const auto over = [&](const Fetch& fetch) {
    const auto at = connections_.find(fetch.connection);
    return at == connections_.end() || at->second.fetch_until != fetch.deadline;
  };
  while (!fetches_.empty() && over(fetches_.front())) {
    fetches_.pop_front();
  }
}

void Server::give_up_fetches() {
  for (forget_ended_fetches(); !fetches_.empty() && fetches_.front().deadline <= card_.now();
       forget_ended_fetches()) {
    const auto at = connections_.find(fetches_.front().connection);
    at->second.fetch_until = 0;
    at->second.conversation->refuse(
        ETIMEDOUT,
        "a descriptor that came with the record couldn't be received and looked at within 1 s: "
        "what it belongs to doesn't answer");
    serve(at);
  }
}

}  // namespace uroce::control
