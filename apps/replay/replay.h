#pragma once

// A replay: the requests of a capture, and what isn't RoCE in it, received one after the other by
// the cards of a plan in virtual time. Answers in the capture aren't received; they are compared
// with what the cards answer.

#include <string>
#include <utility>
#include <vector>

#include "apps/progress/progress.h"
#include "apps/replay/card.h"
#include "apps/replay/plan.h"

namespace uroce::replay {

// Bytes of all answers; a capture that asks for more is refused.
inline constexpr std::uint64_t kAnswerBytesMax = std::uint64_t{1} << 30U;

struct FrameOutcome {
  enum class What : std::uint8_t {
    kReceived,  // by a card; `fate`
    kLost,      // the plan says so
    kAsOurs,    // a recorded answer; we gave the same
    kOther,     // a recorded answer; we gave none that is the same
  };
  What what = What::kReceived;
  Time time = 0;
  Fate fate{};
};

struct Outcome {
  std::vector<FrameOutcome> frames;  // as in the capture
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> answers;  // to the plan's questions
};

// EFBIG: the answers would be too many. `progress` counts frames.
[[nodiscard]] Result<Outcome> replay(std::span<const CapturedFrame> captured,
                                     const ParsedFrames& frames, const Plan& plan,
                                     Progress* progress = nullptr);

}  // namespace uroce::replay
