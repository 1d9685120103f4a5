// Operations that control runs on a worker between two turns.

#include <algorithm>
#include <cstring>

#include "dataplane/engine/worker_state.h"

namespace uroce {

void Worker::set_peers(std::span<Worker* const> workers) {
  UROCE_CHECK(workers.size() == state_->config.workers);
  state_->peers.assign(workers.begin(), workers.end());
}

void Worker::set_time(Time now) { state_->now = now; }

void Worker::task_ends() { state_->stalls.turn_ends(); }

void Worker::was_descheduled(Duration duration) {
  if (duration == 0) {
    return;
  }
  State& self = *state_;
  self.stalls.was_descheduled(self.now + duration, duration);
  self.absent += duration;
  if (self.catch_up_left == 0) {  // absences that repeat don't keep deadlines away
    self.catch_up_left = kCatchUpTurns;
  }
  ++self.counters.absences;
  self.counters.absent_us += duration / kNanosecondsPerMicrosecond;
}

void Worker::add_qp(Qp& qp) {
  QpEntry& entry = state_->table.add(qp);
  state_->forget_local_peers(entry);
  ++state_->qps_of_users[qp.config().user];
  UROCE_CHECK(entry.port < state_->ports.size());
  state_->update(entry);
}

void Worker::remove_qp(Qp& qp) {
  State& self = *state_;
  QpEntry* entry = self.table.find(qp.config().qpn);
  if (entry == nullptr || entry->qp != &qp) {
    return;
  }
  self.ports[entry->port]->run_queue.leave(*entry);
  self.timers_of(*entry).remove(*entry);
  self.release_waiting(*entry);
  self.flush_releases();
  // Frames in the rings carry numbers, not pointers, and find nobody later. The requester ring
  // holds pointers: everything in it is passed through once, except this one.
  for (std::uint32_t left = self.requester_ring.size(); left > 0; --left) {
    Qp* waiting = nullptr;
    self.requester_ring.dequeue(&waiting, 1);
    if (waiting != &qp) {
      self.requester_ring.enqueue(&waiting, 1);
    }
  }
  PortState& port = *self.ports[entry->port];
  port.roce_counters += qp.counters();
  port.latencies += qp.latencies();
  port.read_frames -= entry->read_frames_counted();
  self.end_reservation(port, *entry);
  self.forget_local_peers(*entry);
  self.table.remove(qp.config().qpn);
  if (const auto of = self.qps_of_users.find(qp.config().user); --of->second == 0) {
    self.qps_of_users.erase(of);
    self.out_of_order_frames.forget(qp.config().user);
    self.parked.forget(qp.config().user);
    self.flushing.forget(qp.config().user);
  }
  self.resume_reads(port);
}

void Worker::modify_qp(Qp& qp, const QpAttributes& attributes, std::uint32_t mask) {
  State& self = *state_;
  QpEntry* entry = self.table.find(qp.config().qpn);
  UROCE_CHECK(entry != nullptr);
  if ((mask & kQpMaskState) != 0 && attributes.state == QpState::kRtr) {
    self.end_earlier_life(*self.ports[entry->port], qp.config().qpn);
  }
  Turn turn = self.make_turn(*entry);
  self.forget_local_peers(*entry);
  qp.modify(attributes, mask, turn);
  if (qp.state() == QpState::kReset || qp.state() == QpState::kErr) {
    self.release_waiting(*entry);  // otherwise they would reach the queue pair's next life
  }
  self.forget_local_peers(*entry);
  self.flush_queues();
  self.flush_releases();
  self.timers_of(*entry).remove(*entry);  // its state says where it belongs now
  self.update(*entry);
}

bool Worker::modify_qp_in(QpState state, Qp& qp, const QpAttributes& attributes,
                          std::uint32_t mask) {
  const bool ends = (mask & kQpMaskState) != 0 &&
                    (attributes.state == QpState::kReset || attributes.state == QpState::kErr);
  if (qp.state() != state && !ends) {
    return false;
  }
  modify_qp(qp, attributes, mask);
  return true;
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
  self.flush_queues();
  self.flush_releases();
}

void Worker::add_session(SessionDoorbells& session) {
  state_->sessions.push_back(&session);
  ++state_->session_changes;
}

void Worker::remove_session(SessionDoorbells& session) {
  std::erase(state_->sessions, &session);
  ++state_->session_changes;
}

std::uint64_t Worker::session_changes() const { return state_->session_changes; }

std::span<SessionDoorbells* const> Worker::sessions() const { return state_->sessions; }

void Worker::forget(CompletionQueue& queue) {
  std::erase(state_->dirty_queues, &queue);
  state_->late_events.forget(queue);
  state_->naps.forget(queue);
}

void Worker::update_port(std::uint16_t port, const PortInfo& info) {
  state_->ports[port]->take_identity(info);
  ++state_->port_changes;
  ++state_->address_changes;
}

std::uint64_t Worker::port_changes() const { return state_->port_changes; }

void Worker::set_addresses(std::uint16_t port, std::vector<LinkAddress> addresses) {
  state_->ports[port]->own_address = addresses.empty() ? LinkAddress() : addresses.front();
  state_->ports[port]->addresses = std::move(addresses);
  ++state_->address_changes;
}

bool Worker::set_capture(CaptureWriter* writer) {
  if (writer != nullptr && state_->capture != nullptr) {
    return false;
  }
  state_->capture = writer;
  state_->events = state_->config.events;
  if (writer != nullptr) {
    state_->events = &state_->failure_tap;
  }
  return true;
}

void Worker::State::FailureTap::announce(AsyncEvent event, std::uint32_t object) {
  state.config.events->announce(event, object);
}

void Worker::State::FailureTap::report(const FailureReport& report) {
  const QpEntry* const entry = state.table.find(report.qpn);
  state.capture->failed(report, entry == nullptr ? std::uint16_t{0} : entry->port, state.now);
  state.config.events->report(report);
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
  buffer->icrc_left_out = false;
  buffer->sent_for = {};
  to.tx.send(buffer);
  return true;
}

const WorkerCounters& Worker::counters() const { return state_->counters; }

const RoceCounters& Worker::roce_counters(std::uint16_t port) const {
  return state_->ports[port]->roce_counters;
}

const Latencies& Worker::latencies(std::uint16_t port) const {
  return state_->ports[port]->latencies;
}

const LatencyHistogram& Worker::fault_times() const { return state_->fault_times; }

void Worker::count_lost_frames(std::uint32_t frames) { state_->counters.tx_lost += frames; }

void Worker::count_sleep() { ++state_->counters.sleeps; }

}  // namespace uroce
