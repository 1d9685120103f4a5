#pragma once

// A host: a connection manager, and the programs that use it. The programs' actions and their times
// are random; events are checked at once.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/cm/ip_service.h"
#include "control/cm/manager.h"
#include "tests/sim/random.h"

namespace uroce::sim {

// A program's end of a connection: its queue pair, reduced to its peer.
struct End {
  control::cm::ConnectionId id = 0;
  bool active = false;
  bool datagram = false;
  std::uint32_t qpn = 0;
  control::cm::QpAttributes attributes;
  bool receives = false, sends = false;  // RTR, RTS
  bool answered = false;                 // a request that the program answered
  bool resolved = false;                 // our request has had its outcome
  bool established = false;
  bool over = false;
  int failures = 0;  // consecutive data packets without an acknowledgement
};

struct HostCounts {
  std::uint64_t asked = 0, established = 0, by_data = 0, rejected = 0, unreachable = 0,
                disconnected = 0, timed_out = 0, services = 0, crashes = 0, restarts = 0;
};

class Host {
 public:
  // `later` runs a function of this host after a time, unless the host has restarted since.
  using Later = std::function<void(Duration, std::function<void()>)>;
  Host(int number, Random& random, Later later);

  // Actions of programs.
  void connect(Time now);
  void disconnect_one(Time now);
  void destroy_one(Time now);
  void crash_program(Time now);  // the daemon cleans up after it
  void restart();                // of the daemon too: everything is forgotten, without a message
  void leave(Time now);          // disconnects everything and starts nothing more

  void on_event(const control::cm::Event& event, const Time& now);
  // A data packet for queue pair `qpn` from the peer. True: acknowledged.
  bool on_data(std::uint32_t qpn, const End& sender, Time now);
  // Sends one data packet; `passes` carries it to the peer and the acknowledgement back.
  void send_data(control::cm::ConnectionId id, const std::function<bool(const End&)>& passes,
                 const Time& now);

  [[nodiscard]] control::cm::Manager& manager() { return *manager_; }
  [[nodiscard]] const std::map<control::cm::ConnectionId, End>& ends() const { return ends_; }
  [[nodiscard]] const HostCounts& counts() const { return counts_; }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }
  [[nodiscard]] control::cm::Route route() const;

 private:
  using Id = control::cm::ConnectionId;
  void start();
  End* find(Id id);
  std::uint32_t take_qpn();
  void erase(Id id);
  void destroy(Id id, Time now);
  void destroy_soon(Id id, const Time& now);
  void on_request(const control::cm::Event& event, const Time& now);
  void answer(Id id, Time now);
  void on_reply(End& end, const Time& now);
  void complete(Id id, Time now);
  void finish(End& end, const Time& now);
  void resolve(End& end);
  void fail(const std::string& what);
  Duration thinking_time();

  int number_;
  Random& random_;
  Later later_;
  std::unique_ptr<control::cm::Manager> manager_;
  std::map<Id, End> ends_;
  std::set<std::uint32_t> qpns_;
  HostCounts counts_;
  std::string wrong_;
};

}  // namespace uroce::sim
