#pragma once

// The last known problems of paths to peers (ICMP errors), so that each is logged once and can be
// quoted as the cause of a failure. Control thread only.
//
// ICMP errors can be forged, with another cause or size in each packet. So log lines are
// rate-limited independently of their contents; the newest error is always remembered.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/enum_array.h"
#include "base/time.h"
#include "control/ip/frames/path_error.h"

namespace uroce::control {

class PathProblems {
 public:
  static constexpr std::size_t kPeersMax = 1'024;  // further ones are neither kept nor logged
  // Minimum interval between two log lines about the same kind of problem with a peer.
  static constexpr Duration kLineIntervalMin = 60 * kNanosecondsPerSecond;
  static constexpr std::uint32_t kLinesMax =
      100;  // log lines for all peers, within kLineIntervalMin
  // Longer than a queue pair retries. Routers report a path MTU once in minutes, and the kernel
  // remembers it for as long.
  static constexpr Duration kRetention = 600 * kNanosecondsPerSecond;

  // Records the error. True if it is to be logged: none of its kind about this peer, whatever its
  // text, and fewer than kLinesMax about all peers were logged within kLineIntervalMin.
  bool record(const PathError& error, Time now);

  // The last error about the peer as a sentence; empty if none within kRetention.
  [[nodiscard]] std::string last(const Gid& peer, Time now) const;

 private:
  static constexpr auto kKinds = static_cast<std::size_t>(PathError::Kind::kTooBig) + 1;
  struct Problem {
    Time last_seen = 0;
    EnumArray<PathError::Kind, Time, kKinds> silent_until{};
    std::string text;
  };
  void forget_old(Time now);
  bool may_log(Time now);

  std::map<Gid, Problem> by_peer_;
  Time counted_until_ = 0;  // end of the interval that lines_logged_ counts
  std::uint32_t lines_logged_ = 0;
};

}  // namespace uroce::control
