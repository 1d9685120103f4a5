// Limits the READ responses on their way to this worker, over all queue pairs of a port
// (read_credits.h). Queue pairs that found no credits wait in order of arrival. A silent peer
// doesn't block others for long: while others wait, a queue pair that receives nothing isn't
// counted any more.

#include <algorithm>
#include <utility>

#include "dataplane/engine/worker_state.h"

namespace uroce {

ReadCredits Worker::State::read_credits(PortState& port, QpEntry& entry) {
  if (entry.reads_next) [[unlikely]] {
    return ReadCredits(port.read_frames_taken() - entry.read_frames_reserved);
  }
  return ReadCredits(port.reads_waiting.empty() ? port.read_frames_taken()
                                                : ReadCredits::kFramesMax);
}

void Worker::State::end_reservation(PortState& port, QpEntry& entry) {
  port.read_frames_reserved -= std::exchange(entry.read_frames_reserved, 0U);
}

void Worker::State::recount_reads(QpEntry& entry, PortState& port) {
  const std::uint32_t frames = entry.qp->read_frames_out();
  const bool less = frames < entry.read_frames;
  const bool more = frames > entry.read_frames;
  const bool waits = entry.qp->read_frames_wanted() != 0;
  port.read_frames -= entry.read_frames_counted();
  entry.read_frames_answered += less ? entry.read_frames - frames : 0;
  if (more || frames == 0 || entry.read_frames_answered >= kReadsAnsweredMin) {
    entry.reads_silent = false;
    entry.reads_answered = ran();
    entry.read_frames_answered = 0;
  }
  entry.read_frames = frames;
  port.read_frames += entry.read_frames_counted();
  // One that was released stays so until it has tried: its visit may have sent something else.
  const bool was_next = entry.reads_next && (more || waits);
  if (was_next) [[unlikely]] {
    entry.reads_next = false;
    end_reservation(port, entry);
  }
  if (waits && !entry.reads_waiting) {
    entry.reads_waiting = true;
    const bool first = was_next && !more;  // it was its turn, and it requested nothing
    port.reads_waiting.insert(first ? port.reads_waiting.begin() : port.reads_waiting.end(),
                              entry.qpn);
    next_reads_check = std::min(next_reads_check, ran() + kReadsSilentMax);
  }
  // If none are on their way, nothing else may restart those that wait.
  if (!port.reads_waiting.empty() && (less || port.read_frames_taken() == 0)) {
    resume_reads(port);
  }
}

// Releases as many of the waiting queue pairs, oldest first, as there are credits for. The credits
// are reserved for them, so that nobody else is released before they have come to send.
void Worker::State::resume_reads(PortState& port) {
  while (!port.reads_waiting.empty()) {
    QpEntry* const entry = table.find(port.reads_waiting.front());
    const bool waits =
        entry != nullptr && entry->reads_waiting && ports[entry->port].get() == &port;
    const std::uint32_t wanted = waits ? entry->qp->read_frames_wanted() : 0;
    if (wanted != 0 && !ReadCredits(port.read_frames_taken()).holds(wanted)) {
      return;
    }
    port.reads_waiting.pop_front();
    if (waits) {
      entry->reads_waiting = false;
      entry->reads_next = wanted != 0;
      entry->qp->reads_may_go();
      // Nothing else of it has changed, so update() isn't needed, and would come back here.
      queue_up(*entry);
      // Else it may not send its READ now, and nobody waits for it: it may be queued to answer.
      if (entry->queued && entry->qp->requests_due()) {
        entry->read_frames_reserved = wanted;
        port.read_frames_reserved += wanted;
      }
    }
  }
}

// An unanswered READ may have no timer, and then nothing else would ever end the wait of those
// behind it. A check takes several turns if there are many queue pairs.
bool Worker::State::check_silent_reads() {
  if (ran() < next_reads_check) {
    return false;
  }
  reads_checked = table.visit_some(reads_checked, kReadsCheckedMax, [this](QpEntry& entry) {
    if (entry.read_frames_counted() != 0 && ran() - entry.reads_answered >= kReadsSilentMax) {
      ports[entry.port]->read_frames -= entry.read_frames;
      entry.reads_silent = true;
    }
    if (entry.read_frames_reserved != 0 && !(entry.queued && entry.qp->requests_due())) {
      end_reservation(*ports[entry.port], entry);  // it had to stop sending before its turn came
    }
  });
  bool any_waits = false;
  for (auto& port : ports) {
    resume_reads(*port);
    any_waits |= !port->reads_waiting.empty();
  }
  if (reads_checked == 0) {
    next_reads_check = any_waits ? ran() + kReadsSilentMax : kNever;
  }
  return true;
}

}  // namespace uroce
