#pragma once

// When to answer routers' queries for multicast groups: each group after a random part of the time
// that the query allows (RFC 2236, 3; RFC 2710, 4), so that neither the network nor the daemon has
// to take all reports at once. A query that comes meanwhile is answered with the same report.
// Another host's report doesn't make ours needless: switches that forward a group only where it was
// reported wait for each (RFC 3376, A.2, has none for that reason).
//
// Anybody on the link can send queries at any rate: at most kBatch reports are sent per kPause.
// Sans-I/O; control thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "dataplane/wire/address.h"

namespace uroce::control {

class GroupAnswers {
 public:
  static constexpr std::size_t kBatch = 32;
  static constexpr Duration kPause = 10 * kNanosecondsPerMillisecond;

  // A group and the VLAN of the query.
  using Answer = LinkAddress;

  // Plans an answer, at the latest in `within`; one that is planned for an earlier time stays.
  void plan(const Answer& answer, Time now, Duration within);
  // The answers to send now.
  std::vector<Answer> due(Time now);
  // When due() has something to return; kNever: nothing is planned.
  [[nodiscard]] Time next_deadline() const;

 private:
  std::map<Answer, Time> planned_;
  std::set<std::pair<Time, Answer>> by_time_;
  Time not_before_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace uroce::control
