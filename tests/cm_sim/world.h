#pragma once

// Two hosts and the network between them, from a seed: a phase in which everything happens, then
// one in which nothing new begins and no message is lost, then the end. Checkers:
//
//   each request has exactly one outcome, each connection is established at most once (host.cc)
//   in the calm phase, a connection established at one end is established at the other, with each
//     other's numbers, queue pairs and PSNs; nothing is in an intermediate state
//   unless the network was too bad for a time, no peer was unreachable or silent
//   at the end both managers are empty

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/cm_sim/host.h"
#include "tests/cm_sim/link.h"

namespace uroce::sim {

struct CmOutcome {
  std::string wrong;  // empty: no error
  HostCounts hosts;   // of both hosts
  LinkCounts link;
  std::uint64_t repeated = 0, stale = 0, agreed = 0;
};

class CmWorld {
 public:
  explicit CmWorld(std::uint64_t seed);
  CmOutcome run();

 private:
  void run_until(Time end);
  void run_tasks();
  [[nodiscard]] bool stands_still(int host) const { return now_ < still_until_[host]; }
  [[nodiscard]] Time next_of(int host);
  void turn_of(int host);
  void pump();
  void later(int host, Duration delay, std::function<void()> task);
  void act();
  void data_turn();
  void check_agreement();
  void check_empty();
  void fail(const std::string& what);

  Random random_;
  Time now_ = 1'000;
  Link link_;
  bool talkative_;  // programs send data from the start, which may replace a lost RTU
  std::multimap<Time, std::pair<std::pair<int, std::uint64_t>, std::function<void()>>> tasks_;
  std::uint64_t lives_[2] = {0, 0};  // incremented by a restart
  // A daemon that stands still serves neither programs nor deadlines; arriving frames wait in its
  // port.
  Time still_until_[2] = {0, 0};
  std::vector<control::cm::Outgoing> unread_[2];
  Host hosts_[2];
  std::string wrong_;
  std::uint64_t agreed_ = 0;
};

}  // namespace uroce::sim
