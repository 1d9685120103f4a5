#pragma once

// The last known problems of the paths to peers (ICMP errors), so that each is logged once and can
// be given as the reason of a failure. Control thread only.
//
// ICMP errors can be forged, with another cause or size in each packet. So the number of lines in
// the log is limited by time alone, and by nothing that they contain; the newest is remembered in
// any case.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/time.h"
#include "control/ip/path_error.h"

namespace uroce::control {

class PathProblems {
 public:
  static constexpr std::size_t kPeersMax = 1'024;  // of further ones nothing is remembered or told
  // Between two tellings of the same kind of problem with a peer.
  static constexpr Duration kSilence = 60 * kNanosecondsPerSecond;
  static constexpr std::uint32_t kTellingsMax = 100;  // of all peers, within kSilence
  // Longer than a queue pair tries. Routers say how much a path carries once in minutes, and the
  // kernel remembers it as long.
  static constexpr Duration kMemory = 600 * kNanosecondsPerSecond;

  // Whether it is to be told: it hasn't been of this peer, in whatever words, within kSilence, nor
  // have too many been of all peers.
  bool note(const PathError& error, Time now);

  // The sentence about the peer, if there is one within kMemory; else empty.
  [[nodiscard]] std::string last(const Gid& peer, Time now) const;

 private:
  static constexpr auto kKinds = static_cast<std::size_t>(PathError::Kind::kTooBig) + 1;
  struct Problem {
    Time heard = 0;
    std::array<Time, kKinds> silent_until{};
    std::string text;
  };
  void forget_old(Time now);
  bool may_tell(Time now);

  std::map<Gid, Problem> by_peer_;
  Time counted_until_ = 0;  // the tellings, and from then on anew
  std::uint32_t tellings_ = 0;
};

}  // namespace uroce::control
