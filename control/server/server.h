#pragma once

// The control thread's event loop: accepts programs, moves records between their sockets and their
// conversations, processes notices of workers, and runs the timers of address resolution. One
// thread, one epoll. It never waits for a program or for the network; it may have to wait for a
// worker that is blocked in the kernel by a program that punches a hole into shared memory
// (Engine::call, docs/threats.md).

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "base/time/heartbeat.h"
#include "base/time/line_throttle.h"
#include "base/unique_fd.h"
#include "control/commands/conversation.h"
#include "control/commands/link_follower.h"
#include "control/commands/services.h"
#include "control/foreign/foreign_socket.h"
#include "control/foreign/inbox.h"
#include "control/reports/path_problems.h"
#include "control/server/command_page_poller.h"
#include "control/server/listening_socket.h"
#include "control/server/throttled_users.h"

namespace uroce::control {

class Server {
 public:
  // Listens at `path`. The services outlive the server.
  static Result<std::unique_ptr<Server>> listen(const Services& services, const std::string& path,
                                                unsigned mode);
  ~Server();  // ends all sessions and removes the socket
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until `on_signal`, called whenever `signals` is readable, returns true.
  void run(
      int signals, std::function<bool()> on_signal = [] { return true; });
  [[nodiscard]] const Heartbeat& heartbeat() const { return heartbeat_; }

 private:
  static constexpr std::uint64_t kNoSession = 0;      // within_memory: work for no program
  static constexpr std::uint64_t kFirstSession = 16;  // smaller values tag the other descriptors
  struct Connection {
    std::shared_ptr<const ForeignSocket> socket;
    std::unique_ptr<Conversation> conversation;
    std::uint32_t interest = 0;                            // epoll event mask
    bool fetching = false;                                 // a helper receives the next record
    std::optional<Inbox::Arrival> arrival = std::nullopt;  // what it received, until it is served
    bool gone = false;     // its program has disconnected; it ends at its user's next turn
    bool serving = false;  // a command is in progress
  };
  using Connections = std::map<std::uint64_t, Connection>;

  Server(const Services& services, ListeningSocket listener, UniqueFd poll);
  Status watch(int descriptor, std::uint32_t events, std::uint64_t tag);
  // Fills `events`; returns their number, or the result of epoll_wait.
  int wait(std::span<epoll_event> events);
  void accept_some();
  void accept(UniqueFd socket);
  void reject_connection();
  // Runs `work`; on std::bad_alloc it is abandoned, and if it had begun a record of the program
  // `tag`, that connection ends.
  template <typename Work>
  void within_memory(std::uint64_t tag, const Work& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      on_no_memory(tag);
    }
  }
  void on_no_memory(std::uint64_t tag);
  void on_event(std::uint64_t tag, std::uint32_t events);
  void on_connection(Connections::iterator at, std::uint32_t events);
  void serve_in_turn(Connections::iterator at);
  void serve(Connections::iterator at);
  void settle(Connections::iterator at);
  void serve_timed(Connections::iterator at);
  void serve_throttled();
  void serve_page_request();
  void expect(std::uint64_t id, CommandPage* page);
  void watch_for(Connections::iterator at, std::uint32_t interest);
  void stop_watching(Connections::iterator at);
  void drop(Connections::iterator at);
  bool flush(Connection& connection);
  void receive(std::uint64_t id, Connection& connection);
  void serve_page(std::uint64_t id, Connection& connection, CommandPage& page);
  // Runs a command, or a part of it: if memory runs out meanwhile, the connection ends.
  template <typename Work>
  static void run_command(Connection& connection, const Work& work) {
    connection.serving = true;
    work(*connection.conversation);
    connection.serving = false;
  }
  static void take(Connection& connection, ReceiveStatus receipt, Record record);
  void fetch(std::uint64_t id, Connection& connection);
  void on_helpers();
  void give_up_fetches();
  void answer_more(Conversation& conversation);
  void on_notices();
  void on_event_room();
  void on_frame(const Notice& notice);
  void on_path_error(const Device& device, const PathError& error);
  void on_async_event(const Notice& notice);
  void log_overrun(std::uint32_t cqn);
  void on_failure(const FailureReport& report);
  void on_time();
  void log_claims(Time now);
  void resume_waiting();
  [[nodiscard]] int milliseconds_to_deadline() const;

  Heartbeat heartbeat_;
  const Services& services_;
  Card& card_;
  ListeningSocket listener_;
  UniqueFd poll_;
  UniqueFd spare_;  // see reject_connection()
  Connections connections_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();  // shared with helpers
  PathProblems path_problems_;
  std::function<bool()> on_signal_;
  std::uint64_t next_id_ = kFirstSession;
  bool stopping_ = false;
  bool addresses_settled_ = false;   // and nobody was told yet
  bool answered_this_turn_ = false;  // a piece of a long reply was sent this turn
  ThrottledUsers throttled_users_;
  Time next_helpers_check_ = kNever;  // next check for programs that wait for a hanging helper
  LineThrottle memory_lines_;         // on exhausted memory
  LineThrottle refusal_lines_;        // on refused programs
  CommandPagePoller page_poller_;     // used while it lingers
  Time linger_until_ = 0;             // see kLinger
  Time next_poll_ = 0;                // next epoll_wait() while it lingers
  std::uint32_t polls_ = 0;
  LinkFollower links_;
};

}  // namespace uroce::control
