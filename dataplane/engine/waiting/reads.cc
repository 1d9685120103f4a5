// Limits the READ responses on their way to this worker, of each user's queue pairs of a port
// (read_credits.h, turn/user_reads.h). Queue pairs that found no credits wait in order of arrival.
// A silent peer doesn't block others of its user for long: while they wait, a queue pair that
// receives nothing isn't counted any more.

#include <algorithm>
#include <utility>

#include "dataplane/engine/worker_state.h"

namespace uroce {

// REQUIRES: the queue pair is in the run queue.
ReadCredits Worker::State::read_credits(const QpEntry& entry) const {
  const UserReads& reads = entry.group->reads;
  if (entry.reads_next) [[unlikely]] {
    return ReadCredits(reads.taken() - entry.read_frames_reserved, readers.share());
  }
  return reads.waiting.empty() ? ReadCredits(reads.taken(), readers.share()) : ReadCredits::none();
}

void Worker::State::end_reservation(UserReads& reads, QpEntry& entry) {
  reads.reserved -= std::exchange(entry.read_frames_reserved, 0U);
}

void Worker::State::recount_reads(QpEntry& entry, UserReads& reads) {
  const std::uint32_t frames = entry.qp->read_frames_out();
  const bool less = frames < entry.read_frames;
  const bool more = frames > entry.read_frames;
  const bool waits = entry.qp->read_frames_wanted() != 0;
  reads.frames -= entry.read_frames_counted();
  entry.read_frames_answered += less ? entry.read_frames - frames : 0;
  if (more || frames == 0 || entry.read_frames_answered >= kReadsAnsweredMin) {
    entry.reads_silent = false;
    entry.reads_answered = ran();
    entry.read_frames_answered = 0;
  }
  entry.read_frames = frames;
  reads.frames += entry.read_frames_counted();
  // One that was released stays so until it has tried: its visit may have sent something else.
  const bool was_next = entry.reads_next && (more || waits);
  if (was_next) [[unlikely]] {
    entry.reads_next = false;
    end_reservation(reads, entry);
  }
  if (waits && !entry.reads_waiting) {
    entry.reads_waiting = true;
    const bool first = was_next && !more;  // it was its turn, and it requested nothing
    reads.waiting.insert(first ? reads.waiting.begin() : reads.waiting.end(), entry.qpn);
    ++reads_waiting;
    next_reads_check = std::min(next_reads_check, ran() + kReadsSilentMax);
  }
  // If none are on their way, nothing else may restart those that wait.
  if (!reads.waiting.empty() && (less || reads.taken() == 0)) {
    resume_reads(reads);
  }
  readers.update(reads);
}

// Releases as many of the waiting queue pairs, oldest first, as there are credits for. The credits
// are reserved for them, so that nobody else is released before they have come to send.
void Worker::State::resume_reads(UserReads& reads) {
  while (!reads.waiting.empty()) {
    QpEntry* const entry = table.find(reads.waiting.front());
    const bool waits = entry != nullptr && entry->reads_waiting && &entry->group->reads == &reads;
    const std::uint32_t wanted = waits ? entry->qp->read_frames_wanted() : 0;
    if (wanted != 0 && !ReadCredits(reads.taken(), readers.share()).holds(wanted)) {
      return;
    }
    reads.waiting.pop_front();
    --reads_waiting;
    if (waits) {
      entry->reads_waiting = false;
      entry->reads_next = wanted != 0;
      entry->qp->reads_may_go();
      // Nothing else of it has changed, so update() isn't needed, and would come back here.
      queue_up(*entry);
      if (entry->queued) {  // else it may not send now, and nobody waits for it
        entry->read_frames_reserved = wanted;
        reads.reserved += wanted;
      }
    }
  }
}

// The queue pair is removed. What is left of it among those that wait is skipped at its turn.
void Worker::State::forget_reads(QpEntry& entry) {
  if (entry.group == nullptr) {
    return;
  }
  UserReads& reads = entry.group->reads;
  reads.frames -= entry.read_frames_counted();
  end_reservation(reads, entry);
  entry.read_frames = 0;
  entry.reads_waiting = entry.reads_next = false;
  resume_reads(reads);
  readers.update(reads);
}

// An unanswered READ may have no timer, and then nothing else would ever end the wait of those
// behind it.
bool Worker::State::check_silent_reads() {
  if (ran() < next_reads_check) {
    return false;
  }
  table.for_each([this](QpEntry& entry) {
    if (entry.read_frames_counted() != 0 && ran() - entry.reads_answered >= kReadsSilentMax) {
      entry.group->reads.frames -= entry.read_frames;
      entry.reads_silent = true;
    }
    if (entry.read_frames_reserved != 0 && !entry.queued) {
      end_reservation(entry.group->reads, entry);  // it had to stop sending before its turn came
    }
  });
  next_reads_check = kNever;
  table.for_each([this](QpEntry& entry) {
    if (entry.reads_waiting) {
      resume_reads(entry.group->reads);
    }
    if (entry.reads_waiting) {
      next_reads_check = ran() + kReadsSilentMax;
    }
    if (entry.group != nullptr) {
      readers.update(entry.group->reads);
    }
  });
  return true;
}

}  // namespace uroce
