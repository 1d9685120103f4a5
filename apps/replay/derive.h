#pragma once

// Plans a replay from the capture alone: queue pairs and memory such that the responder gives the
// recorded answers, as far as packets tell.
//
//   * Each address that is asked something is a card, each flow a queue pair in RTS that expects
//   the
//     PSN of its first request.
//   * Each rkey is a region from the lowest to the highest byte that is asked of it; a request that
//     drew a remote access NAK doesn't count. Before a READ or an atomic is received, its bytes
//     become what the recorded answer says that was there.
//   * There is a receive whenever a message needs one, unless the recorded peer had none (an RNR
//   NAK).
//   * A packet that drew a sequence NAK by its own PSN was lost behind the place of capture.
//   * Addresses to which management datagrams go are cards, too.

#include "apps/replay/plan.h"

namespace uroce::replay {

// Additional facts that can't be derived from the packets.
struct Circumstances {
  std::vector<std::size_t> lost{};   // frame numbers, from 1
  std::uint32_t receive_length = 0;  // bytes of each receive; 0: as many as any message has
  std::uint32_t region_cut = 0;      // bytes that each region is shorter than what is asked of it
  std::uint32_t region_access =
      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  // Whether requests that drew a remote access NAK count as well.
  bool refused_regions = false;
  // Memory changes only by what comes over the wire; it starts as the first answers say.
  bool memory_is_stable = false;
};

[[nodiscard]] Plan derive(const ParsedFrames& frames, const std::vector<Flow>& flows,
                          const Circumstances& circumstances = {});

}  // namespace uroce::replay
