// Frames that wait for a missing earlier one, in the order of their PSNs; passed to their queue
// pair again as soon as it has progressed. Frames that wait for memory (paging.cc) are separate, in
// order of arrival.

#include <algorithm>

#include "dataplane/engine/worker_state.h"
#include "dataplane/wire/psn.h"

namespace uroce {

// The queue pair makes sure that none is kept twice, and limits how many.
void Worker::State::keep(QpEntry& entry, Role role, Frame* frame) {
  WaitingFrames& waiting = entry.make_waiting();
  auto& frames = waiting.kept[static_cast<std::size_t>(role)];
  const auto behind = std::find_if(frames.rbegin(), frames.rend(), [frame](const Frame* other) {
    return psn_difference(other->packet.psn, frame->packet.psn) < 0;
  });
  frames.insert(behind.base(), frame);
  waiting.kept_at = now;
  ++kept_total;
}

// After a frame that the queue pair has finished: passes those that are next now. REQUIRES: some
// are kept.
void Worker::State::deliver_kept(QpEntry& entry, Role role) {
  auto& frames = entry.waiting->kept[static_cast<std::size_t>(role)];
  std::vector<Frame*>::difference_type given = 0;
  Frame* parks = nullptr;
  while (given < std::ssize(frames) && parks == nullptr) {
    Frame* const frame = frames[static_cast<std::size_t>(given)];
    Turn lent = turn(entry);
    lent.again = true;
    Drop reason = Drop::kNone;
    const Step step = entry.qp->receive(*frame, lent, &reason);
    if (step == Step::kKept) {
      break;
    }
    ++given;
    if (step == Step::kParked) {
      parks = frame;
      continue;
    }
    finish(frame, reason);
  }
  frames.erase(frames.begin(), frames.begin() + given);
  kept_total -= static_cast<std::uint32_t>(given);
  if (parks != nullptr) {
    park(entry, role, parks);
  }
}

// The queue pair doesn't need them any more.
void Worker::State::drop_kept(QpEntry& entry, Role role) {
  if (!entry.keeps(role)) {
    return;
  }
  auto& frames = entry.waiting->kept[static_cast<std::size_t>(role)];
  for (Frame* frame : frames) {
    drop(frame, Drop::kOutOfSequence);
  }
  kept_total -= static_cast<std::uint32_t>(frames.size());
  frames.clear();
}

// The worker's limit is used up. Queue pairs that keep frames for a silent peer give them up.
void Worker::State::drop_idle_kept() {
  if (now < next_kept_drop) {
    return;
  }
  next_kept_drop = now + kKeptIdleMax;
  table.for_each([this](QpEntry& entry) {
    if (entry.waiting != nullptr && now - entry.waiting->kept_at >= kKeptIdleMax) {
      entry.qp->on_kept_dropped();
      drop_kept(entry, Role::kCompleter);
      drop_kept(entry, Role::kResponder);
    }
  });
}

// The queue pair is removed, or its connection ends.
void Worker::State::release_waiting(QpEntry& entry) {
  if (entry.waiting == nullptr) {
    return;
  }
  for (const Role role : {Role::kCompleter, Role::kResponder}) {
    const auto& parked_ones = entry.waiting->parked[static_cast<std::size_t>(role)];
    const auto& kept_ones = entry.waiting->kept[static_cast<std::size_t>(role)];
    parked -= static_cast<std::uint32_t>(parked_ones.size());
    kept_total -= static_cast<std::uint32_t>(kept_ones.size());
    for (const auto* frames : {&parked_ones, &kept_ones}) {
      std::for_each(frames->begin(), frames->end(), [this](Frame* frame) { release(frame); });
    }
  }
  entry.waiting.reset();
}

}  // namespace uroce
