// READ responses on their way to this worker, over all queue pairs of a port (read_room.h). Queue
// pairs that found no room wait in the order in which they came.

#include <utility>

#include "dataplane/engine/worker_state.h"

namespace uroce {

ReadRoom Worker::State::read_room(PortState& port, QpEntry& entry) {
  const bool first = std::exchange(entry.reads_next, false);
  return ReadRoom(first || port.reads_waiting.empty() ? port.read_frames : ReadRoom::kFramesMax);
}

void Worker::State::recount_reads(QpEntry& entry, PortState& port) {
  const std::uint32_t frames = entry.qp->read_frames_out();
  const bool less = frames < entry.read_frames;
  port.read_frames = port.read_frames - entry.read_frames + frames;
  entry.read_frames = frames;
  if (entry.qp->read_frames_wanted() != 0 && !entry.reads_waiting) {
    entry.reads_waiting = true;
    port.reads_waiting.push_back(entry.qpn);
  }
  // Without any on their way there may be nobody else to bring on those that wait.
  if (!port.reads_waiting.empty() && (less || port.read_frames == 0)) {
    resume_reads(port);
  }
}

// Lets go as many of those that wait, oldest first, as there is room for.
void Worker::State::resume_reads(PortState& port) {
  ReadRoom room(port.read_frames);
  while (!port.reads_waiting.empty()) {
    QpEntry* const entry = table.find(port.reads_waiting.front());
    const bool waits = entry != nullptr && entry->reads_waiting;
    const std::uint32_t wanted = waits ? entry->qp->read_frames_wanted() : 0;
    if (wanted != 0 && !room.holds(wanted)) {
      return;
    }
    port.reads_waiting.pop_front();
    if (waits) {
      entry->reads_waiting = false;
      entry->reads_next = wanted != 0;
      room.take(wanted);
      entry->qp->reads_may_go();
      update(*entry);
    }
  }
}

}  // namespace uroce
