#pragma once

// The control thread's loop: accepts programs, moves records between their sockets and their
// conversations, takes what workers tell, and minds the clocks of address resolution. One thread,
// one epoll; nothing in it waits for a program or for the network.

#include <sys/epoll.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "control/commands/conversation.h"
#include "control/commands/services.h"
#include "control/reports/path_problems.h"
#include "control/server/listening_socket.h"

namespace uroce::control {

class Server {
 public:
  // Whether one more connection is served. EMFILE with a sentence.
  static Status has_room_for(const Card& card, const Peer& peer);
  // Listens at `path`. The services outlive the server.
  static Result<std::unique_ptr<Server>> listen(const Services& services, const std::string& path,
                                                unsigned mode);
  ~Server();  // ends all sessions and removes the socket
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until `stop_descriptor` is readable.
  void run(int stop_descriptor);

 private:
  static constexpr std::uint64_t kFirstSession = 16;  // smaller ones tag the other descriptors
  struct Connection {
    UniqueFd socket;
    std::unique_ptr<Conversation> conversation;
    std::uint32_t interest = 0;  // of epoll
  };
  using Connections = std::map<std::uint64_t, Connection>;

  Server(const Services& services, ListeningSocket listener, UniqueFd poll);
  Status watch(int descriptor, std::uint32_t events, std::uint64_t tag);
  // Fills `events`; returns how many there are, or what epoll_wait does.
  int wait(std::span<epoll_event> events);
  void accept_all();
  void accept(UniqueFd socket);
  void turn_away();
  void on_event(std::uint64_t tag, std::uint32_t events);
  void serve(Connections::iterator at);
  bool flush(Connection& connection);
  void receive(Connection& connection);
  void on_notices();
  void on_frame(const Notice& notice);
  void on_path_error(const Device& device, const PathError& error);
  void on_async_event(const Notice& notice);
  void log_overrun(std::uint32_t cqn);
  void on_failure(const FailureReport& report);
  [[nodiscard]] std::string why_unanswered(const FailureReport& report) const;
  void on_time();
  void resume_waiting();
  [[nodiscard]] int milliseconds_to_deadline() const;
  void look_at_links();

  const Services& services_;
  Card& card_;
  ListeningSocket listener_;
  UniqueFd poll_;
  UniqueFd spare_;  // see turn_away()
  Connections connections_;
  PathProblems path_problems_;
  std::uint64_t next_id_ = kFirstSession;
  bool stopping_ = false;
  Time linger_until_ = 0;         // see kLinger
  Time next_link_look_ = kNever;  // kNever: no port has a link that could change
};

}  // namespace uroce::control
