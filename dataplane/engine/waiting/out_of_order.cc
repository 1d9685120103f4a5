// Out-of-order frames: they wait for a missing earlier one, in the order of their PSNs, and are
// passed to their queue pair again as soon as it has progressed. Frames that wait for memory
// (paging.cc) are separate, in order of arrival.

#include <algorithm>

#include "dataplane/engine/worker_state.h"
#include "dataplane/wire/psn.h"

namespace uroce {

// The queue pair makes sure that none is buffered twice, and limits how many.
void Worker::State::buffer_out_of_order(QpEntry& entry, Role role, Frame* frame) {
  WaitingFrames& waiting = entry.make_waiting();
  auto& frames = waiting.out_of_order[role];
  const auto behind = std::find_if(frames.rbegin(), frames.rend(), [frame](const Frame* other) {
    return psn_difference(other->packet.psn, frame->packet.psn) < 0;
  });
  frames.insert(behind.base(), frame);
  waiting.out_of_order_at = ran();
  if (out_of_order_frames.total() == 0) {
    next_out_of_order_drop = now + kOutOfOrderIdleMax;
  }
  out_of_order_frames.add(entry.qp->config().user);
  if (waiting.out_of_order_place == WaitingFrames::kNoPlace) {
    waiting.out_of_order_place = static_cast<std::uint32_t>(out_of_order_qps.size());
    out_of_order_qps.push_back(&entry);
  }
}

// If it has none any more, it leaves the list; the last of that takes its place.
void Worker::State::unlist_out_of_order(QpEntry& entry) {
  if (entry.has_out_of_order() || entry.waiting->out_of_order_place == WaitingFrames::kNoPlace) {
    return;
  }
  const std::uint32_t place = entry.waiting->out_of_order_place;
  out_of_order_qps[place] = out_of_order_qps.back();
  out_of_order_qps[place]->waiting->out_of_order_place = place;
  out_of_order_qps.pop_back();
  entry.waiting->out_of_order_place = WaitingFrames::kNoPlace;
}

// After a frame that the queue pair has finished: passes those that are next now. REQUIRES: there
// are some.
void Worker::State::deliver_out_of_order(QpEntry& entry, Role role) {
  auto& frames = entry.waiting->out_of_order[role];
  std::vector<Frame*>::difference_type given = 0;
  Frame* parks = nullptr;
  while (given < std::ssize(frames) && parks == nullptr) {
    Frame* const frame = frames[static_cast<std::size_t>(given)];
    Turn turn = make_turn(entry);
    turn.again = true;
    Drop reason = Drop::kNone;
    const Step step = entry.qp->receive(*frame, turn, &reason);
    if (step == Step::kOutOfOrder) {
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
  out_of_order_frames.remove(entry.qp->config().user, static_cast<std::uint32_t>(given));
  unlist_out_of_order(entry);
  if (parks != nullptr) {
    park(entry, role, parks);
  }
}

// The queue pair doesn't need them any more.
void Worker::State::drop_out_of_order(QpEntry& entry, Role role) {
  if (!entry.has_out_of_order(role)) {
    return;
  }
  auto& frames = entry.waiting->out_of_order[role];
  for (Frame* frame : frames) {
    drop(frame, Drop::kOutOfSequence);
  }
  out_of_order_frames.remove(entry.qp->config().user, static_cast<std::uint32_t>(frames.size()));
  frames.clear();
  unlist_out_of_order(entry);
}

// Although it needs them: its peer has to send them again.
void Worker::State::give_up_out_of_order(QpEntry& entry) {
  entry.qp->on_out_of_order_dropped();
  drop_out_of_order(entry, Role::kCompleter);
  drop_out_of_order(entry, Role::kResponder);
}

// Queue pairs that buffer frames of a silent peer give them up: sooner if the worker's limit is
// used up.
void Worker::State::drop_idle_out_of_order() {
  if (now < next_out_of_order_drop) {
    return;
  }
  next_out_of_order_drop = now + kOutOfOrderIdleMax;
  const Duration idle_max =
      out_of_order_frames.total() < kOutOfOrderTotalMax ? kOutOfOrderSilentMax : kOutOfOrderIdleMax;
  // Backwards, because the last one takes the place of one that leaves.
  for (std::size_t i = out_of_order_qps.size(); i-- > 0;) {
    if (ran() - out_of_order_qps[i]->waiting->out_of_order_at >= idle_max) {
      give_up_out_of_order(*out_of_order_qps[i]);
    }
  }
}

// A frame of this queue pair was dropped for want of room. If another user has far more than its
// share, half of that is given up, for the frames that come next.
void Worker::State::make_out_of_order_room(const QpEntry& entry) {
  const auto user = out_of_order_frames.who_exceeds(entry.qp->config().user);
  if (!user) {
    return;
  }
  const std::uint32_t enough = out_of_order_frames.of(*user) / 2;
  for (std::size_t i = out_of_order_qps.size();
       i-- > 0 && out_of_order_frames.of(*user) > enough;) {
    if (out_of_order_qps[i]->qp->config().user == *user) {
      give_up_out_of_order(*out_of_order_qps[i]);
    }
  }
}

// The port has no buffer left to send with, perhaps because out-of-order frames hold them all: then
// what is missing would never come.
void Worker::State::drop_out_of_order_on(const PortState& port) {
  for (std::size_t i = out_of_order_qps.size(); i-- > 0;) {
    if (out_of_order_qps[i]->port == port.index) {
      give_up_out_of_order(*out_of_order_qps[i]);
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
    const auto& out_of_order_ones = entry.waiting->out_of_order[role];
    if (!parked_ones.empty()) {
      parked.remove(entry.qp->config().user, static_cast<std::uint32_t>(parked_ones.size()));
    }
    if (!out_of_order_ones.empty()) {
      out_of_order_frames.remove(entry.qp->config().user,
                                 static_cast<std::uint32_t>(out_of_order_ones.size()));
    }
    for (const auto* frames : {&parked_ones, &out_of_order_ones}) {
      std::for_each(frames->begin(), frames->end(), [this](Frame* frame) { release(frame); });
    }
    entry.waiting->out_of_order[role].clear();
  }
  unlist_out_of_order(entry);
  entry.waiting.reset();
}

}  // namespace uroce
