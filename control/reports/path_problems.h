#pragma once

// What was last heard of the ways to peers, so that it is told once, and again as the reason of
// what fails. Control thread only.

#include <cstddef>
#include <map>
#include <string>

#include "base/time.h"
#include "control/ip/path_error.h"

namespace uroce::control {

class PathProblems {
 public:
  static constexpr std::size_t kPeersMax = 1'024;  // of further ones nothing is remembered or told
  static constexpr Duration kSilence = 60 * kNanosecondsPerSecond;  // between two tellings
  // Longer than a queue pair tries. Routers say how much a path carries once in minutes, and the
  // kernel remembers it as long.
  static constexpr Duration kMemory = 600 * kNanosecondsPerSecond;

  // Whether it is news: not told of this peer within kSilence.
  bool note(const PathError& error, Time now);

  // The sentence about the peer, if there is one within kMemory; else empty.
  [[nodiscard]] std::string last(const Gid& peer, Time now) const;

 private:
  struct Problem {
    PathError::Kind kind;
    std::uint32_t mtu;
    Time told, heard;
    std::string text;
  };
  void forget_old(Time now);

  std::map<Gid, Problem> by_peer_;
};

}  // namespace uroce::control
