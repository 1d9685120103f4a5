#pragma once

// What a worker keeps about one of its queue pairs. The run queue, the timers and the table all
// point here; the entry lives from add_qp to remove_qp.

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/time.h"
#include "dataplane/qp/qp.h"

namespace uroce {

// The roles that take frames; each parks by itself.
enum class Role : std::uint8_t { kCompleter = 0, kResponder = 1 };

struct RunGroup;

struct QpEntry {
  static constexpr std::uint32_t kNoTimer = std::numeric_limits<std::uint32_t>::max();

  explicit QpEntry(Qp& owner) : qp(&owner), qpn(owner.config().qpn), port(owner.config().port) {}

  Qp* qp;
  std::uint32_t qpn;
  std::uint16_t port;

  // RunQueue: its user's queue pairs, a place among them, and what deficit round robin still
  // grants.
  RunGroup* group = nullptr;
  bool queued = false;
  bool granted = false;  // got this round's quantum
  std::int64_t deficit = 0;
  QpEntry* next = nullptr;
  QpEntry* previous = nullptr;

  // Timers: the time at which to look at Qp::deadline() again, never later than it.
  Time timer = kNever;
  std::uint32_t timer_index = kNoTimer;

  bool starved = false;   // in the worker's list of those whose fault found no record
  bool withheld = false;  // and of those that others come before

  // READ responses on their way as they are counted for the port, and whether its next READ waits
  // for room or was let go.
  std::uint32_t read_frames = 0;
  bool reads_waiting = false;
  bool reads_next = false;

  // Frames that wait for memory, oldest first. Index: Role.
  std::array<std::vector<Frame*>, 2> parked{};
  // Frames that came ahead of one that is missing, by PSN. Index: Role.
  std::array<std::vector<Frame*>, 2> kept{};
  Time kept_at = 0;  // when the newest of them came
};

}  // namespace uroce
