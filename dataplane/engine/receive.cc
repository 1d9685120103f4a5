// The receiving end of a worker: from the ports to the owners' rings, and from there to queue
// pairs.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/prefetch.h"
#include "base/probe.h"
#include "dataplane/engine/worker_state.h"
#include "dataplane/wire/ecn.h"

namespace uroce {

bool Worker::State::receive() {
  bool any = false;
  bool whole = false;  // a burst, so that there may be more
  for (auto& port : ports) {
    any |= receive_hairpins(*port);
    std::uint32_t count = port->turn_burst;
    for (std::uint32_t i = 0; i < port->turn_bursts && count == port->turn_burst; ++i) {
      count = receive_burst(*port);
      any |= count > 0;
    }
    whole |= count == port->turn_burst;
  }
  catch_up_left = whole && catch_up_left > 0 ? catch_up_left - 1 : 0;
  return any;
}

// Frames that the port sent to itself in the last turn come before those from the wire, and all of
// them: any left behind would be overtaken.
bool Worker::State::receive_hairpins(PortState& port) {
  const auto count = static_cast<std::uint32_t>(port.hairpin.size());
  for (std::uint32_t from = 0; from < count; from += kBurstMax) {
    steer(port, port.hairpin.data() + from, std::min(kBurstMax, count - from));
  }
  port.hairpin.clear();
  counters.rx_frames += count;
  return count > 0;
}

std::uint32_t Worker::State::receive_burst(PortState& port) {
  std::array<Frame*, kBurstMax> burst;
  const std::uint32_t count = port.port->rx_burst(static_cast<std::uint16_t>(config.index),
                                                  burst.data(), port.turn_burst, now);
  if (count == 0) {
    return 0;
  }
  if (capture != nullptr) [[unlikely]] {
    capture_received(port, burst.data(), count);
  }
  steer(port, burst.data(), count);
  UROCE_PROBE3(receive, config.index, port.index, count);
  counters.rx_frames += count;
  return count;
}

void Worker::State::steer(PortState& port, Frame** frames, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i + 1 < count) {
      prefetch_line(frames[i + 1]->data);
    }
    steer_frame(port, frames[i]);
  }
  for (std::uint32_t worker = 0; worker < config.workers; ++worker) {
    hand_over(worker, Role::kCompleter);
    hand_over(worker, Role::kResponder);
  }
}

// Parses one frame and adds it to those for its owner and role, passes it to control, or drops it.
// The payload of a queue pair's frame is read only by its owner, who checks the ICRC: so it is
// still in the nearest cache when it is copied, and isn't brought into another worker's.
void Worker::State::steer_frame(PortState& port, Frame* frame) {
  frame->port = port.index;
  frame->hairpin = false;
  if (is_for_another_station(port, *frame)) [[unlikely]] {
    return drop(frame, Drop::kNotOurAddress);
  }
  const Drop reason = parse_headers(*frame);
  if (reason == Drop::kNotRoce) {
    gather(*frame);
    if (config.frames != nullptr && is_host_frame(*frame) &&
        !config.frames->take(port.index, {frame->data, frame->length})) {
      return drop(frame, Drop::kControlFull);
    }
    return drop(frame, reason);
  }
  if (reason != Drop::kNone) {
    return drop(frame, reason);
  }
  const Packet& packet = frame->packet;
  const bool own = is_own_address(port, LinkAddress(packet.destination_gid(), packet.vlan_id()));
  if (!own || packet.dest_qpn == kGsiQpn) [[unlikely]] {
    if (is_intact(frame)) {
      own ? take_mad(frame) : steer_group(port, frame);
    }
    return;
  }
  const std::uint32_t owner = config.workers == 1 ? 0 : packet.dest_qpn % config.workers;
  const Role role = opcode_info(packet.opcode).request ? Role::kResponder : Role::kCompleter;
  table.prefetch(packet.dest_qpn);
  Steered& batch = steered[owner][role];
  batch.frames[batch.count++] = frame;
}

// Checks the ICRC; a frame that isn't as its sender made it is dropped. Copies of a checked frame
// need no second check.
[[gnu::always_inline]] inline bool Worker::State::is_intact(Frame* frame) {
  if (frame->icrc_checked || frame->icrc_left_out || icrc_is_right(frame->packet)) [[likely]] {
    frame->icrc_checked = true;
    return true;
  }
  ++ports[frame->port]->roce_counters.rx_icrc_encapsulated;
  drop(frame, Drop::kBadIcrc);
  return false;
}

// Frames that a card's filter would drop, but that a port delivers which passes on everything on
// its wire (af_packet on a veth pair). Groups are left to is_own_address() and steer_group().
bool Worker::State::is_for_another_station(const PortState& port, const Frame& frame) {
  EtherAddress destination;
  if (port.any_mac || frame.length < sizeof(destination)) {
    return false;  // parse() knows what to do with short ones
  }
  std::memcpy(&destination, frame.data, sizeof(destination));
  return destination != port.mac && !destination.is_multicast();
}

bool Worker::State::is_another_own_address(PortState& port, const LinkAddress& destination) {
  const auto found = std::find(port.addresses.begin(), port.addresses.end(), destination);
  if (found == port.addresses.end()) {
    return false;
  }
  port.own_address = destination;
  return true;
}

// Puts the gathered frames into the owner's ring; those that don't fit are dropped, as by a network
// card whose receive ring is full. The next frames are marked as by a switch with a full queue, so
// that their senders slow down.
void Worker::State::hand_over(std::uint32_t worker, Role role) {
  Steered& batch = steered[worker][role];
  if (batch.count == 0) {
    return;
  }
  State& owner = worker == config.index ? *this : *peers[worker]->state_;
  if (batch.overflowed) [[unlikely]] {
    for (std::uint32_t i = 0; i < batch.count; ++i) {
      std::uint8_t& tos = batch.frames[i]->packet.tos;
      tos = marked_by_full_queue(tos);
    }
  }
  std::uint32_t taken = owner.rings[role]->enqueue(batch.frames.data(), batch.count);
  batch.overflowed = taken < batch.count;
  for (; taken < batch.count; ++taken) {
    drop(batch.frames[taken], Drop::kRingFull);
  }
  const std::uint32_t count = std::exchange(batch.count, 0);
  if (&owner == this) {
    return;
  }
  counters.handed_over += count;
  if (owner.config.wakeup != nullptr) {
    owner.config.wakeup->wake();
  }
}

// Prefetches what the frames behind the first one will need. REQUIRES: there is one.
void Worker::State::prefetch_ahead(std::span<Frame* const> frames) const {
  constexpr std::size_t kEntryAhead = 2, kQpAhead = 1;
  if (frames.size() > kEntryAhead) {
    table.prefetch_entry(frames[kEntryAhead]->packet.dest_qpn);
  }
  const QpEntry* const entry = table.find(frames[kQpAhead]->packet.dest_qpn);
  if (entry != nullptr) {
    entry->qp->prefetch_receiving();
  }
}

bool Worker::State::drain_frames(Role role) {
  if (out_of_order_frames.total() != 0) [[unlikely]] {
    drop_idle_out_of_order();
  }
  Ring<Frame>& ring = *rings[role];
  std::array<Frame*, kBurstMax> burst;
  std::uint32_t drained = 0;
  QpEntry* last = nullptr;   // to be updated once its run of frames ends
  std::optional<Turn> turn;  // for that run, as long as nothing changes that a turn holds
  while (drained < kDrainMax) {
    const std::uint32_t count = ring.dequeue(burst.data(), kBurstMax);
    if (count == 0) {
      break;
    }
    drained += count;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t qpn = burst[i]->packet.dest_qpn;
      if (i + 1 < count && burst[i + 1]->packet.dest_qpn != qpn) {
        prefetch_ahead({burst.data() + i, count - i});
      }
      if (!is_intact(burst[i])) [[unlikely]] {
        continue;
      }
      QpEntry* entry = last != nullptr && last->qpn == qpn ? last : table.find(qpn);
      // One of another port's is another card's.
      if (entry == nullptr || entry->port != burst[i]->port) {
        drop(burst[i], Drop::kUnknownQp);
        continue;
      }
      if (entry != last && last != nullptr) {
        update(*last);
      }
      if (entry != last || !turn.has_value()) {
        turn.emplace(make_turn(*entry));
      }
      last = entry;
      // What a turn lends stays the same until memory is waited for, or frames are buffered.
      const bool took = deliver(*entry, role, burst[i], *turn);
      if (!took || !turn->may_buffer || stalls.watches(now)) [[unlikely]] {
        turn.reset();
      }
    }
  }
  if (last != nullptr) {
    update(*last);
  }
  return drained > 0;
}

// Passes a frame to its queue pair, or stores it if that waits for memory or an earlier frame.
// True if the queue pair took it.
bool Worker::State::deliver(QpEntry& entry, Role role, Frame* frame) {
  Turn turn = make_turn(entry);
  return deliver(entry, role, frame, turn);
}

bool Worker::State::deliver(QpEntry& entry, Role role, Frame* frame, Turn& turn) {
  const bool parked_before =
      entry.parks(role) && !outside_sequence(opcode_info(frame->packet.opcode).operation);
  // An answer that was lost is repeated even so: the peer may need it before anything else.
  if (parked_before && (role == Role::kCompleter || !entry.qp->repeats(frame->packet))) {
    park(entry, role, frame);
    return false;
  }
  Drop reason = Drop::kNone;
  switch (entry.qp->receive(*frame, turn, &reason)) {
    case Step::kParked:
      park(entry, role, frame);
      return false;
    case Step::kOutOfOrder:
      buffer_out_of_order(entry, role, frame);
      return false;
    case Step::kDone:
      break;
  }
  finish(frame, reason);
  if (turn.room_missing) [[unlikely]] {
    turn.room_missing = false;
    make_out_of_order_room(entry);
  }
  if (entry.has_out_of_order(role) && !entry.parks(role)) [[unlikely]] {
    deliver_out_of_order(entry, role);
  }
  return true;
}

// Its queue pair has done with it.
void Worker::State::finish(Frame* frame, Drop reason) {
  if (reason != Drop::kNone) {
    drop(frame, reason);
  } else {
    release(frame);
  }
}

void Worker::State::release(Frame* frame) {
  auto& releases = ports[frame->port]->releases;
  releases.push_back(frame);
}

// A frame that a port hands back was captured when it was sent. The serial identifies it, since
// another worker may drop the frame.
void Worker::State::capture_received(const PortState& port, Frame** frames, std::uint32_t count) {
  constexpr std::uint32_t kSerialBits = 28;
  for (std::uint32_t i = 0; i < count && !port.loops_back; ++i) {
    ++captured;
    frames[i]->capture_serial =
        (config.index + 1) << kSerialBits | (captured & ((1U << kSerialBits) - 1));
    complete(*frames[i]);
    capture->received(*frames[i], port.index, frames[i]->capture_serial, now);
  }
}

void Worker::State::drop(Frame* frame, Drop reason) {
  if (capture != nullptr) [[unlikely]] {
    complete(*frame);
    capture->dropped(*frame, static_cast<std::uint8_t>(reason), now);
  }
  UROCE_PROBE3(drop, config.index, frame->port, static_cast<std::uint32_t>(reason));
  ++counters.drops[reason];
  release(frame);
}

void Worker::State::flush_releases() {
  for (auto& port : ports) {
    auto& releases = port->releases;
    if (!releases.empty()) {
      port->port->release(releases.data(), static_cast<std::uint32_t>(releases.size()));
      releases.clear();
    }
  }
}

}  // namespace uroce
