#pragma once

// The second pass over a capture: each packet is passed to the tally of its half-connection and to
// the stream in which it is a request or a response.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apps/check/findings.h"
#include "apps/check/half_connections.h"
#include "apps/check/stream.h"
#include "apps/check/tally.h"
#include "apps/progress/progress.h"
#include "apps/replay/capture_reader.h"
#include "base/result.h"

namespace uroce::check {

// The results of one half-connection, and of the stream of its requests.
struct HalfVerdict {
  HalfVerdict(const HalfConnection& which, const Limits& limits, Tally& nobody)
      : half(which), stream(which.mtu, which.reliable(), limits, findings, tally, nobody) {}
  HalfVerdict(const HalfVerdict&) = delete;
  HalfVerdict& operator=(const HalfVerdict&) = delete;

  const HalfConnection& half;
  Findings findings;
  Tally tally;
  Stream stream;
  Duration cnp_interval_min = kNever;
  Time cnp_last = 0;

  // The last frames, to detect captured duplicates.
  struct Recent {
    std::size_t hash = 0;
    Time time = 0;
  };
  std::deque<Recent> recent;
};

struct Verdict {
  HalfConnections halves;
  std::deque<HalfVerdict> of_half;  // as halves.all()
  Findings others;                  // of packets that belong to no half
  std::uint64_t frames = 0;
  std::uint64_t roce = 0;          // that are RoCEv2
  std::uint64_t cut_short = 0;     // by the capture; their ICRC can't be checked
  std::uint64_t unattributed = 0;  // answers to what isn't in the capture
  std::map<std::string_view, std::uint64_t> not_parsed;  // by wire/drop.def's names
  Time first = kNever, last = 0;
  std::string damage;  // why reading stopped early; empty: it didn't
  Tally nobody;        // what half connections' missing ends would have

  [[nodiscard]] std::uint64_t faults() const;
};

// Analyses the capture into `verdict`, which must be new. Fails if the file isn't a capture.
// `progress` counts frames twice, once per pass.
[[nodiscard]] Status analyse(const std::filesystem::path& file, const Limits& limits,
                             Verdict& verdict, Progress* progress = nullptr);

}  // namespace uroce::check
