#pragma once

// The READs of one user's queue pairs on one port, and how many users of a worker read. Users don't
// wait for each other's READs: each may have an equal share of the worker's credits outstanding.

#include <algorithm>
#include <cstdint>
#include <deque>

#include "dataplane/qp/recovery/read_credits.h"

namespace uroce {

struct UserReads {
  // READ responses that were requested and haven't arrived, except those of silent peers.
  std::uint32_t frames = 0;
  std::uint32_t reserved = 0;         // of READs that were released and begin at their turn
  bool counted = false;               // in Readers
  std::deque<std::uint32_t> waiting;  // queue pairs whose next READ waits for credits

  [[nodiscard]] std::uint32_t taken() const { return frames + reserved; }
};

class Readers {
 public:
  // The READ responses that each user may have outstanding.
  [[nodiscard]] std::uint32_t share() const { return share_; }

  // What the user has outstanding or waiting has changed.
  void update(UserReads& reads) {
    const bool reading = reads.taken() != 0 || !reads.waiting.empty();
    if (reading != reads.counted) {
      reads.counted = reading;
      users_ += reading ? 1 : -1;
      share_ = ReadCredits::kFramesMax / static_cast<std::uint32_t>(std::max(users_, 1));
    }
  }

 private:
  std::int32_t users_ = 0;  // on each port for itself
  std::uint32_t share_ = ReadCredits::kFramesMax;
};

}  // namespace uroce
