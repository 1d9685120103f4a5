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
  auto& frames = waiting.kept[role];
  const auto behind = std::find_if(frames.rbegin(), frames.rend(), [frame](const Frame* other) {
    return psn_difference(other->packet.psn, frame->packet.psn) < 0;
  });
  frames.insert(behind.base(), frame);
  waiting.kept_at = ran();
  if (kept_frames.total() == 0) {
    next_kept_drop = now + kKeptIdleMax;
  }
  kept_frames.add(entry.qp->config().user);
  if (waiting.keeper == WaitingFrames::kNoKeeper) {
    waiting.keeper = static_cast<std::uint32_t>(keepers.size());
    keepers.push_back(&entry);
  }
}

// If it keeps none any more, it leaves the list; the last of that takes its place.
void Worker::State::stop_keeping(QpEntry& entry) {
  if (entry.keeps() || entry.waiting->keeper == WaitingFrames::kNoKeeper) {
    return;
  }
  const std::uint32_t place = entry.waiting->keeper;
  keepers[place] = keepers.back();
  keepers[place]->waiting->keeper = place;
  keepers.pop_back();
  entry.waiting->keeper = WaitingFrames::kNoKeeper;
}

// After a frame that the queue pair has finished: passes those that are next now. REQUIRES: some
// are kept.
void Worker::State::deliver_kept(QpEntry& entry, Role role) {
  auto& frames = entry.waiting->kept[role];
  std::vector<Frame*>::difference_type given = 0;
  Frame* parks = nullptr;
  while (given < std::ssize(frames) && parks == nullptr) {
    Frame* const frame = frames[static_cast<std::size_t>(given)];
    Turn turn = make_turn(entry);
    turn.again = true;
    Drop reason = Drop::kNone;
    const Step step = entry.qp->receive(*frame, turn, &reason);
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
  kept_frames.remove(entry.qp->config().user, static_cast<std::uint32_t>(given));
  stop_keeping(entry);
  if (parks != nullptr) {
    park(entry, role, parks);
  }
}

// The queue pair doesn't need them any more.
void Worker::State::drop_kept(QpEntry& entry, Role role) {
  if (!entry.keeps(role)) {
    return;
  }
  auto& frames = entry.waiting->kept[role];
  for (Frame* frame : frames) {
    drop(frame, Drop::kOutOfSequence);
  }
  kept_frames.remove(entry.qp->config().user, static_cast<std::uint32_t>(frames.size()));
  frames.clear();
  stop_keeping(entry);
}

// Although it needs them: its peer has to send them again.
void Worker::State::give_up_kept(QpEntry& entry) {
  entry.qp->on_kept_dropped();
  drop_kept(entry, Role::kCompleter);
  drop_kept(entry, Role::kResponder);
}

// Queue pairs that keep frames for a silent peer give them up: sooner if the worker's limit is used
// up.
void Worker::State::drop_idle_kept() {
  if (now < next_kept_drop) {
    return;
  }
  next_kept_drop = now + kKeptIdleMax;
  const Duration idle_max = kept_frames.total() < kKeptTotalMax ? kKeptSilentMax : kKeptIdleMax;
  // Backwards, because the last one takes the place of one that leaves.
  for (std::size_t i = keepers.size(); i-- > 0;) {
    if (ran() - keepers[i]->waiting->kept_at >= idle_max) {
      give_up_kept(*keepers[i]);
    }
  }
}

// A frame of this queue pair was dropped for want of room. If another user has far more than its
// share, half of that is given up, for the frames that come next.
void Worker::State::make_room_to_keep(const QpEntry& entry) {
  const auto user = kept_frames.who_exceeds(entry.qp->config().user);
  if (!user) {
    return;
  }
  const std::uint32_t enough = kept_frames.of(*user) / 2;
  for (std::size_t i = keepers.size(); i-- > 0 && kept_frames.of(*user) > enough;) {
    if (keepers[i]->qp->config().user == *user) {
      give_up_kept(*keepers[i]);
    }
  }
}

// The port has no buffer left to send with, perhaps because they are all kept: then what is missing
// would never come.
void Worker::State::drop_kept_of(const PortState& port) {
  for (std::size_t i = keepers.size(); i-- > 0;) {
    if (keepers[i]->port == port.index) {
      give_up_kept(*keepers[i]);
    }
  }
}

// The queue pair is removed, or its connection ends.
void Worker::State::release_waiting(QpEntry& entry) {
  if (entry.waiting == nullptr) {
    return;
  }
  for (const Role role : {Role::kCompleter, Role::kResponder}) {
    const auto& parked_ones = entry.waiting->parked[role];
    const auto& kept_ones = entry.waiting->kept[role];
    if (!parked_ones.empty()) {
      parked.remove(entry.qp->config().user, static_cast<std::uint32_t>(parked_ones.size()));
    }
    if (!kept_ones.empty()) {
      kept_frames.remove(entry.qp->config().user, static_cast<std::uint32_t>(kept_ones.size()));
    }
    for (const auto* frames : {&parked_ones, &kept_ones}) {
      std::for_each(frames->begin(), frames->end(), [this](Frame* frame) { release(frame); });
    }
    entry.waiting->kept[role].clear();
  }
  stop_keeping(entry);
  entry.waiting.reset();
}

}  // namespace uroce
