// What control does to a worker between two turns.

#include <algorithm>
#include <cstring>

#include "dataplane/engine/worker_state.h"

namespace uroce {

void Worker::set_peers(std::span<Worker* const> workers) {
  UROCE_CHECK(workers.size() == state_->config.workers);
  state_->peers.assign(workers.begin(), workers.end());
}

void Worker::set_time(Time now) { state_->now = now; }

void Worker::was_away(Duration duration) {
  if (duration == 0) {
    return;
  }
  State& self = *state_;
  self.absent += duration;
  self.catch_up_left = kCatchUpTurns;
  ++self.counters.absences;
  self.counters.absent_us += duration / kNanosecondsPerMicrosecond;
}

void Worker::add_qp(Qp& qp) {
  QpEntry& entry = state_->table.add(qp);
  UROCE_CHECK(entry.port < state_->ports.size());
  state_->update(entry);
}

void Worker::remove_qp(Qp& qp) {
  State& self = *state_;
  QpEntry* entry = self.table.find(qp.config().qpn);
  if (entry == nullptr || entry->qp != &qp) {
    return;
  }
  if (entry->queued) {
    self.ports[entry->port]->run_queue.remove(*entry);
  }
  self.timers.remove(*entry);
  self.release_waiting(*entry);
  self.flush_releases();
  // Frames in the rings carry numbers, not pointers, and find nobody later. The requester ring
  // holds pointers: everything in it goes round once, less this one.
  for (std::uint32_t left = self.requester_ring.size(); left > 0; --left) {
    Qp* waiting = nullptr;
    self.requester_ring.dequeue(&waiting, 1);
    if (waiting != &qp) {
      self.requester_ring.enqueue(&waiting, 1);
    }
  }
  PortState& port = *self.ports[entry->port];
  port.roce_counters += qp.counters();
  port.read_frames -= entry->read_frames;
  self.table.remove(qp.config().qpn);
  self.resume_reads(port);
}

void Worker::modify_qp(Qp& qp, const QpAttributes& attributes, std::uint32_t mask) {
  State& self = *state_;
  QpEntry* entry = self.table.find(qp.config().qpn);
  UROCE_CHECK(entry != nullptr);
  Turn lent = self.turn(*entry);
  qp.modify(attributes, mask, lent);
  self.flush_queues();
  self.update(*entry);
}

void Worker::schedule(Qp& qp) {
  if (QpEntry* entry = state_->table.find(qp.config().qpn); entry != nullptr) {
    state_->update(*entry);
  }
}

void Worker::resume(Qp& qp) {
  State& self = *state_;
  QpEntry* entry = self.table.find(qp.config().qpn);
  if (entry == nullptr) {
    return;
  }
  self.resume(*entry);
  self.remote_batch.flush();
  self.flush_queues();
  self.flush_releases();
}

void Worker::add_session(SessionBells& session) {
  state_->sessions.push_back(&session);
  ++state_->session_changes;
}

void Worker::remove_session(SessionBells& session) {
  std::erase(state_->sessions, &session);
  ++state_->session_changes;
}

std::uint64_t Worker::session_changes() const { return state_->session_changes; }

std::span<SessionBells* const> Worker::sessions() const { return state_->sessions; }

void Worker::forget(CompletionQueue& queue) {
  std::erase(state_->dirty_queues, &queue);
  std::erase(state_->unflushed_queues, &queue);
}

void Worker::set_addresses(std::uint16_t port, std::vector<LinkAddress> addresses) {
  state_->ports[port]->addresses = std::move(addresses);
  state_->ports[port]->address_hint = 0;
}

bool Worker::send_frame(std::uint16_t port, std::span<const std::byte> frame) {
  PortState& to = *state_->ports[port];
  if (to.tx.ready_count() >= to.turn_burst) {
    return false;
  }
  Frame* buffer = to.tx.take();
  if (buffer == nullptr && to.port->allocate(&buffer, 1) == 0) {
    return false;
  }
  if (frame.size() > buffer->capacity) {
    to.port->release(&buffer, 1);
    return false;
  }
  std::memcpy(buffer->data, frame.data(), frame.size());
  buffer->length = static_cast<std::uint32_t>(frame.size());
  buffer->hairpin = false;
  to.tx.send(buffer);
  return true;
}

const WorkerCounters& Worker::counters() const { return state_->counters; }

const RoceCounters& Worker::roce_counters(std::uint16_t port) const {
  return state_->ports[port]->roce_counters;
}

void Worker::count_sleep() { ++state_->counters.sleeps; }

}  // namespace uroce
