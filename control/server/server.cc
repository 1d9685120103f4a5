#include "control/server/server.h"

#include <fcntl.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "control/sessions/card_limits.h"

namespace uroce::control {
namespace {

// What an epoll event is about, if not a session.
enum Tag : std::uint64_t { kListener, kStop, kNotices, kPaging, kAddresses };

constexpr int kServerEventsMax = 64;
constexpr int kSessionRecordsMax = 16;  // of one session in one turn
// No driver needs to be asked faster, and an idle daemon shouldn't wake up often.
constexpr Duration kLinkLookInterval = 100 * kNanosecondsPerMillisecond;
// A program that asks one thing after another is expected for so long after each answer: to be
// woken takes longer than most answers do.
constexpr Duration kLinger = 30 * kNanosecondsPerMicrosecond;

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
  std::vector<std::pair<int, Tag>> watched{{server->listener_.get(), kListener},
                                           {services.card.engine().notice_descriptor(), kNotices}};
  if (services.paging != nullptr) {
    watched.emplace_back(services.paging->control_descriptor(), kPaging);
  }
  if (services.addresses != nullptr) {
    watched.emplace_back(services.addresses->descriptor(), kAddresses);
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
      spare_(spare_descriptor()) {
  const auto& devices = card_.devices();
  if (std::any_of(devices.begin(), devices.end(),
                  [](const Device& device) { return !device.port().info().loops_back; })) {
    next_link_look_ = card_.now();
  }
}

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

void Server::run(int stop_descriptor) {
  if (!watch(stop_descriptor, EPOLLIN, kStop)) {
    return;
  }
  std::array<epoll_event, kServerEventsMax> events;
  while (!stopping_) {
    const int count = wait(events);
    // Notices first: a program that asks why its completion failed gets the worker's word on it.
    std::partition(events.begin(), events.begin() + std::max(count, 0),
                   [](const epoll_event& event) { return event.data.u64 == kNotices; });
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      on_event(event.data.u64, event.events);
    }
    on_time();
  }
}

int Server::wait(std::span<epoll_event> events) {
  const auto most = static_cast<int>(events.size());
  while (card_.now() < linger_until_) {
    if (const int count = ::epoll_wait(poll_.get(), events.data(), most, 0); count != 0) {
      return count;
    }
    ::sched_yield();
  }
  return ::epoll_wait(poll_.get(), events.data(), most, milliseconds_to_deadline());
}

void Server::on_event(std::uint64_t tag, std::uint32_t events) {
  if (!spare_.valid()) {
    spare_ = spare_descriptor();
  }
  switch (tag) {
    case kListener:
      return accept_all();
    case kStop:
      stopping_ = true;
      return;
    case kNotices:
      return on_notices();
    case kPaging:
      services_.paging->control_woken();
      return resume_waiting();
    case kAddresses:
      return services_.addresses->on_change();
    default:
      break;
  }
  const auto at = connections_.find(tag);
  if (at == connections_.end()) {
    return;  // ended by an earlier event of this turn
  }
  // The program is gone: nobody reads the answer to what it may still have asked.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    connections_.erase(at);
    return;
  }
  serve(at);
  linger_until_ = card_.now() + kLinger;
}

void Server::accept_all() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      accept(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE) {
      turn_away();
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

Status Server::has_room_for(const Card& card, const Peer& peer) {
  const auto& sessions = card.sessions();
  const bool administrator = is_administrator(peer);
  const std::uint32_t most = administrator ? kSessionsMax : kOrdinarySessionsMax;
  if (sessions.size() >= most) {
    return Error{EMFILE, "the daemon serves " + std::to_string(most) + " sessions, no more"};
  }
  const auto theirs = std::count_if(sessions.begin(), sessions.end(), [&](const auto& entry) {
    return entry.second->peer().uid == peer.uid;
  });
  if (!administrator && theirs >= kUserSessionsMax) {
    return Error{EMFILE, "user " + std::to_string(peer.uid) + " has " +
                             std::to_string(kUserSessionsMax) + " sessions, no more"};
  }
  return ok();
}

void Server::accept(UniqueFd socket) {
  const auto peer = peer_of(socket.get());
  if (!peer) {
    return;
  }
  const std::uint64_t id = next_id_++;
  const Status room = has_room_for(card_, *peer);
  Connection connection{std::move(socket), std::make_unique<Conversation>(services_, id, *peer),
                        EPOLLIN};
  if (!room) {
    connection.conversation->refuse(room.error().code, room.error().message);
    (void)flush(connection);
    return;
  }
  if (watch(connection.socket.get(), EPOLLIN, id)) {
    connections_.emplace(id, std::move(connection));
  }
}

// There is no descriptor left to accept with; without help the listener would stay readable and the
// loop would spin. The spare one takes a connection for as long as it needs to be closed.
void Server::turn_away() {
  spare_.reset();
  const UniqueFd refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  spdlog::warn("a program was turned away: the daemon has no descriptors left (ulimit -n)");
}

void Server::serve(Connections::iterator at) {
  Connection& connection = at->second;
  Conversation& conversation = *connection.conversation;
  if (flush(connection)) {
    receive(connection);
  }
  if (!flush(connection) && conversation.finished()) {
    // It doesn't read its last answer; nothing more is owed to it.
    conversation.outbox().clear();
  }
  if (conversation.finished() && conversation.outbox().empty()) {
    connections_.erase(at);
    return;
  }
  // Commands wait in the socket while an answer can't be sent or an address isn't known.
  std::uint32_t interest = 0;
  if (!conversation.outbox().empty()) {
    interest = EPOLLOUT;
  } else if (!conversation.waiting()) {
    interest = EPOLLIN;
  }
  if (interest != connection.interest) {
    epoll_event event{};
    event.events = interest;
    event.data.u64 = at->first;
    ::epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
    connection.interest = interest;
  }
}

// Sends what it can; true if the outbox is empty.
bool Server::flush(Connection& connection) {
  auto& outbox = connection.conversation->outbox();
  while (!outbox.empty()) {
    switch (send_record(connection.socket.get(), outbox.front())) {
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

void Server::receive(Connection& connection) {
  Conversation& conversation = *connection.conversation;
  for (int i = 0; i < kSessionRecordsMax; ++i) {
    if (conversation.finished() || conversation.waiting() || !flush(connection)) {
      return;
    }
    Record record;
    switch (receive_record(connection.socket.get(), &record)) {
      case Receipt::kRecord:
        conversation.receive(std::move(record));
        break;
      case Receipt::kNothing:
        return;
      case Receipt::kClosed:
        conversation.end();
        return;
      case Receipt::kTooLong:
        conversation.refuse(EMSGSIZE,
                            "a record has at most " + std::to_string(kRecordMax) + " bytes");
        break;
      case Receipt::kTooManyDescriptors:
        conversation.refuse(
            EMSGSIZE, "a record has at most " + std::to_string(kDescriptorsMax) + " descriptors");
        break;
    }
  }
}

void Server::on_time() {
  const Time now = card_.now();
  bool settled = false;
  for (Device& device : card_.devices()) {
    settled = (device.next_deadline() <= now && device.on_time(now)) || settled;
  }
  if (settled) {
    resume_waiting();
    services_.connections.on_addresses_settled();
  }
  services_.connections.on_time();
  if (next_link_look_ <= now) {
    next_link_look_ = now + kLinkLookInterval;
    look_at_links();
  }
}

// A link that comes or goes is an event for every program that has the device open.
void Server::look_at_links() {
  for (Device& device : card_.devices()) {
    const std::optional<bool> up = device.link_change();
    if (!up) {
      continue;
    }
    spdlog::info("{}: the link is {}", device.name(), *up ? "up" : "down");
    const auto event =
        static_cast<std::uint32_t>(*up ? AsyncEvent::kPortActive : AsyncEvent::kPortErr);
    card_.announce(device, event);
  }
}

void Server::resume_waiting() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto next = std::next(at);
    if (at->second.conversation->waiting()) {
      at->second.conversation->resume();
      serve(at);
    }
    at = next;
  }
}

int Server::milliseconds_to_deadline() const {
  Time deadline = std::min(next_link_look_, services_.connections.next_deadline());
  for (const Device& device : card_.devices()) {
    deadline = std::min(deadline, device.next_deadline());
  }
  if (deadline == kNever) {
    return -1;
  }
  const Time now = card_.now();
  return deadline <= now ? 0 : static_cast<int>((deadline - now) / kNanosecondsPerMillisecond) + 1;
}

}  // namespace uroce::control
