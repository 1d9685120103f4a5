#pragma once

// What a worker keeps about one of its queue pairs. The run queue, the timers and the table all
// point here; the entry lives from add_qp to remove_qp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "base/enum_array.h"
#include "base/prefetch.h"
#include "base/time.h"
#include "dataplane/qp/qp.h"

namespace uroce {

// The roles that take frames; each parks by itself.
enum class Role : std::uint8_t { kCompleter = 0, kResponder = 1 };

struct RunGroup;

// Frames of a queue pair that wait.
struct WaitingFrames {
  static constexpr std::uint32_t kNoPlace = std::numeric_limits<std::uint32_t>::max();

  EnumArray<Role, std::vector<Frame*>, 2> parked{};  // for memory, oldest first
  // For an earlier one that is missing, by PSN; when the newest of them came, in the running time;
  // and the queue pair's place in the worker's out_of_order_qps.
  EnumArray<Role, std::vector<Frame*>, 2> out_of_order{};
  Time out_of_order_at = 0;
  std::uint32_t out_of_order_place = kNoPlace;
};

struct alignas(kCacheLine) QpEntry {
  static constexpr std::uint32_t kNoTimer = std::numeric_limits<std::uint32_t>::max();

  explicit QpEntry(Qp& owner) : qp(&owner), qpn(owner.config().qpn), port(owner.config().port) {}

  // The first line also has what is read when its peer has something for it.
  Qp* qp;
  std::uint32_t qpn;
  std::uint16_t port;

  // RunQueue: its user's queue pairs, a place among them, and what deficit round robin still
  // grants.
  bool queued = false;
  bool granted = false;  // got this round's quantum
  RunGroup* group = nullptr;
  std::int64_t deficit = 0;
  QpEntry* next = nullptr;
  QpEntry* previous = nullptr;

  // Its peer, if that is a queue pair of the same worker, as determined when the ports' addresses
  // had changed local_peer_changes times; 0: not determined (direct.cc).
  QpEntry* local_peer = nullptr;

  std::unique_ptr<WaitingFrames> waiting;  // nullptr: there have been none

  std::uint64_t local_peer_changes = 0;
  // Timers: the time at which to look at Qp::deadline() again, never later than it.
  Time timer = kNever;
  std::uint32_t timer_index = kNoTimer;
  bool timed_to_flush = false;  // it is, or was last, among the worker's flush_timers

  bool starved = false;         // in the worker's list of those whose fault found no record
  bool withheld = false;        // in the list of those that wait for others
  bool had_local_peer = false;  // since it was modified last

  // READ responses on their way, how many have come since when (in the worker's running time), and
  // whether those are so few that the port doesn't count what is on its way; whether its next READ
  // waits for room or was released, and how much is reserved for it.
  bool reads_waiting = false;
  bool reads_next = false;
  bool reads_silent = false;
  std::uint32_t read_frames = 0;
  std::uint32_t read_frames_answered = 0;
  std::uint32_t read_frames_reserved = 0;
  Time reads_answered = 0;

  [[nodiscard]] std::uint32_t read_frames_counted() const { return reads_silent ? 0 : read_frames; }

  [[nodiscard]] bool parks(Role role) const {
    return waiting != nullptr && !waiting->parked[role].empty();
  }
  [[nodiscard]] bool has_out_of_order(Role role) const {
    return waiting != nullptr && !waiting->out_of_order[role].empty();
  }
  [[nodiscard]] bool has_out_of_order() const {
    return has_out_of_order(Role::kCompleter) || has_out_of_order(Role::kResponder);
  }
  WaitingFrames& make_waiting() {
    if (waiting == nullptr) {
      waiting = std::make_unique<WaitingFrames>();
    }
    return *waiting;
  }
};
static_assert(offsetof(QpEntry, waiting) < kCacheLine && sizeof(QpEntry) == 2 * kCacheLine);

}  // namespace uroce
