#include "control/server/server.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "control/sessions/card_limits.h"
#include "control/sessions/neighbour_changes.h"

namespace uroce::control {
namespace {

// The source of an epoll event other than a session.
enum Tag : std::uint64_t {
  kListener,
  kSignals,
  kNotices,
  kEventRoom,
  kPaging,
  kAddresses,
  kHelpers,
  kLinks,
  kSamples
};

constexpr int kServerEventsMax = 64;
// Connections accepted per turn. The listener stays readable while more are waiting, so a program
// that connects and closes in a loop doesn't delay others.
constexpr int kAcceptedMax = 16;

UniqueFd spare_descriptor() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const Services& services, const std::string& path,
                                               unsigned mode) {
  auto listener = ListeningSocket::open(path, mode);
  if (!listener) {
    return listener.error();
  }
  UniqueFd poll(::epoll_create1(EPOLL_CLOEXEC));
  if (!poll.valid()) {
    return system_error("can't make an epoll");
  }
  std::unique_ptr<Server> server(new Server(services, std::move(*listener), std::move(poll)));
  std::vector<std::pair<int, Tag>> watched{
      {server->listener_.get(), kListener},
      {services.card.engine().notice_descriptor(), kNotices},
      {services.card.event_socket_watch().descriptor(), kEventRoom},
      {services.helpers->descriptor(), kHelpers}};
  if (services.paging != nullptr) {
    watched.emplace_back(services.paging->control_descriptor(), kPaging);
  }
  if (services.addresses != nullptr) {
    watched.emplace_back(services.addresses->descriptor(), kAddresses);
  }
  if (services.sampler != nullptr) {
    watched.emplace_back(services.sampler->descriptor(), kSamples);
  }
  if (server->links_.descriptor() >= 0) {
    watched.emplace_back(server->links_.descriptor(), kLinks);
  }
  for (const auto& [descriptor, tag] : watched) {
    if (Status status = server->watch(descriptor, EPOLLIN, tag); !status) {
      return status.error();
    }
  }
  return Result<std::unique_ptr<Server>>(std::move(server));
}

Server::Server(const Services& services, ListeningSocket listener, UniqueFd poll)
    : services_(services),
      card_(services.card),
      listener_(std::move(listener)),
      poll_(std::move(poll)),
      spare_(spare_descriptor()),
      links_(card_) {}

Server::~Server() { connections_.clear(); }

Status Server::watch(int descriptor, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return system_error("can't watch a descriptor");
  }
  return ok();
}

void Server::run(int signals, std::function<bool()> on_signal) {
  if (!watch(signals, EPOLLIN, kSignals)) {
    return;
  }
  on_signal_ = std::move(on_signal);
  std::array<epoll_event, kServerEventsMax> events;
  heartbeat_.begin();
  while (!stopping_) {
    const int count = wait(events);
    throttled_users_.begin_turn();
    answered_this_turn_ = false;
    // Notices first: a program that asks why its completion failed gets the worker's report.
    std::partition(events.begin(), events.begin() + std::max(count, 0),
                   [](const epoll_event& event) { return event.data.u64 == kNotices; });
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      heartbeat_.beat();
      within_memory(event.data.u64, [&] { on_event(event.data.u64, event.events); });
    }
    serve_throttled();
    serve_page_request();
    within_memory(kListener, [this] { on_time(); });
  }
  heartbeat_.end();
}

void Server::on_no_memory(std::uint64_t tag) {
  const auto at = connections_.find(tag);
  if (at != connections_.end() && at->second.serving) {
    drop(at);
  }
  if (memory_lines_.is_due(card_.now())) {
    spdlog::error("the daemon has no memory left (RLIMIT_AS, or the machine's)");
  }
}

void Server::on_event(std::uint64_t tag, std::uint32_t events) {
  if (!spare_.valid()) {
    spare_ = spare_descriptor();
  }
  switch (tag) {
    case kListener:
      return accept_some();
    case kSignals:
      stopping_ = on_signal_();
      return;
    case kNotices:
      return on_notices();
    case kEventRoom:
      return on_event_room();
    case kPaging:
      services_.paging->control_woken();
      return resume_waiting();
    case kAddresses:
      return services_.addresses->on_change();
    case kHelpers:
      return on_helpers();
    case kLinks:
      return links_.on_change();
    case kSamples:
      return services_.sampler->on_event();
    default:
      break;
  }
  const auto at = connections_.find(tag);
  if (at != connections_.end()) {  // otherwise ended by an earlier event of this turn
    on_connection(at, events);
  }
}

void Server::on_connection(Connections::iterator at, std::uint32_t events) {
  const User& user = at->second.conversation->session().account()->user();
  if (throttled_users_.has_had_turn(user) && !throttled_users_.is_throttled(user, card_.now())) {
    return;  // reported again in the next turn
  }
  // The program is gone, so its remaining requests are dropped. Ending a session takes as long as
  // many commands, so it is charged to its user as a command.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    at->second.gone = true;
    stop_watching(at);
  }
  serve_in_turn(at);
}

// Now, or when it is the user's turn.
void Server::serve_in_turn(Connections::iterator at) {
  const User& user = at->second.conversation->session().account()->user();
  if (throttled_users_.has_had_turn(user) || throttled_users_.is_throttled(user, card_.now())) {
    throttled_users_.wait(user, at->first);
    watch_for(at, 0);
    page_poller_.forget(at->first);
  } else {
    serve_timed(at);
  }
}

void Server::accept_some() {
  for (int i = 0; i < kAcceptedMax; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      accept(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE) {
      reject_connection();
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void Server::accept(UniqueFd socket) {
  const auto peer = program_at(socket.get());
  if (!peer) {
    if (refusal_lines_.is_due(card_.now())) {
      spdlog::warn("a program was turned away: {}", peer.error().message);
    }
    return;
  }
  const std::uint64_t id = next_id_++;
  auto conversation = std::make_unique<Conversation>(services_, id, *peer);
  const Status room = conversation->session().admit();
  // A program that may not pass descriptors now gets an error from sendmsg(2); otherwise its
  // connection couldn't be closed safely.
  const User& user = conversation->session().account()->user();
  permit_descriptors(socket.get(), room && services_.helpers->check(user));
  Connection connection{std::make_shared<ForeignSocket>(std::move(socket), user, services_.helpers),
                        std::move(conversation), EPOLLIN};
  if (!room) {
    connection.conversation->refuse(room.error().code, room.error().message);
    (void)flush(connection);
    return;
  }
  if (watch(connection.socket->get(), EPOLLIN, id)) {
    connections_.emplace(id, std::move(connection));
  }
}

void Server::serve_throttled() {
  const auto at = connections_.find(throttled_users_.next(card_.now()));
  if (at != connections_.end()) {  // otherwise none waits, or it has ended
    within_memory(at->first, [&] { serve_timed(at); });
  }
}

// No descriptor is left for accept(2), and the loop would spin on the readable listener. The spare
// descriptor is used to accept a connection and close it.
void Server::reject_connection() {
  spare_.reset();
  const UniqueFd refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (refusal_lines_.is_due(card_.now())) {
    spdlog::warn("programs are turned away: the daemon has no descriptors left (ulimit -n)");
  }
}

void Server::serve(Connections::iterator at) {
  Connection& connection = at->second;
  if (connection.gone) {
    drop(at);
    return;
  }
  Conversation& conversation = *connection.conversation;
  if (connection.arrival) {
    const Inbox::Arrival arrival = *std::exchange(connection.arrival, std::nullopt);
    take(connection, arrival.receipt, std::move(*arrival.record));
  } else if (conversation.waiting()) {
    run_command(connection, [](Conversation& waiting) { waiting.resume(); });
  } else if (flush(connection)) {
    conversation.answering() ? answer_more(conversation) : receive(at->first, connection);
  }
  settle(at);
}

// Sends pending data, ends finished connections, and waits for the next event.
void Server::settle(Connections::iterator at) {
  Connection& connection = at->second;
  Conversation& conversation = *connection.conversation;
  if (!flush(connection) && conversation.finished()) {
    // It doesn't read its last reply, and is closed anyway.
    conversation.outbox().clear();
  }
  if (conversation.finished() && conversation.outbox().empty()) {
    drop(at);
    return;
  }
  // Commands wait in the socket while an answer can't be sent or an address isn't resolved.
  std::uint32_t interest = 0;
  if (!conversation.outbox().empty() || conversation.answering()) {
    interest = EPOLLOUT;
  } else if (!conversation.waiting() && !connection.fetching) {
    interest = EPOLLIN;
    expect(at->first, conversation.session().command_page());
  }
  watch_for(at, interest);
}

void Server::watch_for(Connections::iterator at, std::uint32_t interest) {
  Connection& connection = at->second;
  if (interest != connection.interest) {
    epoll_event event{};
    event.events = interest;
    event.data.u64 = at->first;
    ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.socket->get(), &event);
    connection.interest = interest;
  }
}

// Not by closing it: a helper may still hold the socket.
void Server::stop_watching(Connections::iterator at) {
  (void)::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, at->second.socket->get(), nullptr);
}

void Server::drop(Connections::iterator at) {
  stop_watching(at);
  throttled_users_.forget(at->second.conversation->session().account()->user(), at->first);
  page_poller_.forget(at->first);
  connections_.erase(at);
}

// One piece of one long reply per turn, so that any number of reports doesn't delay others.
void Server::answer_more(Conversation& conversation) {
  if (!answered_this_turn_) {
    answered_this_turn_ = true;
    conversation.answer_more();
  }
}

// Sends what it can; true if the outbox is empty.
bool Server::flush(Connection& connection) {
  auto& outbox = connection.conversation->outbox();
  while (!outbox.empty()) {
    switch (send_record(connection.socket->get(), outbox.front())) {
      case Sending::kSent:
        outbox.pop_front();
        break;
      case Sending::kFull:
        return false;
      case Sending::kClosed:
        outbox.clear();
        connection.conversation->end();
        return true;
    }
  }
  return true;
}

void Server::log_claims(Time now) {
  for (Device& device : card_.devices()) {
    if (const auto claim = device.claims().next_line(now)) {
      spdlog::warn("{}: {} is also claimed by {}: two hosts have this address", device.name(),
                   to_string(claim->address), to_string(claim->mac));
    }
  }
}

void Server::on_time() {
  const Time now = card_.now();
  for (Device& device : card_.devices()) {
    addresses_settled_ |= device.next_deadline() <= now && device.on_time(now);
    follow_moves(card_, device);
  }
  if (addresses_settled_) {
    resume_waiting();
    services_.connections.on_addresses_settled();
    addresses_settled_ = false;
  }
  log_claims(now);
  services_.connections.on_time();
  if (next_helpers_check_ <= now) {
    give_up_fetches();
    resume_waiting();
  }
  next_helpers_check_ = services_.helpers->next_check();
  if (links_.next_check() <= now) {
    links_.check();
  }
  if (services_.addresses != nullptr && services_.addresses->next_check() <= now) {
    services_.addresses->check_again();
  }
  if (services_.sampler != nullptr) {
    services_.sampler->on_time(now);
  }
}

void Server::resume_waiting() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto next = std::next(at);
    if (at->second.conversation->waiting()) {
      within_memory(at->first, [&] { serve_in_turn(at); });
    }
    at = next;
  }
}

}  // namespace uroce::control
