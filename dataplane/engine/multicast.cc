// Multicast: a datagram for a group goes to every queue pair that is attached to it on its port.
//
// Each worker knows all members of all groups. The worker that receives the datagram passes a frame
// to each worker that owns a member; that worker shows it to its members one by one. A frame takes
// as long as its members are many, so that a turn counts these.
//
// Datagrams sent to a group that has members here are looped back internally, because a switch
// won't send them back; the sending queue pair doesn't get them (IBTA vol. 1, 10.5.2).

#include <algorithm>
#include <cstring>

#include "dataplane/engine/worker_state.h"

namespace uroce {
namespace {

static_assert(Quiescence::kWorkersMax <= 64);  // owners fit into a word

}  // namespace

// nullptr if the port has no buffer. The copy isn't parsed.
Frame* Worker::State::copy_of(PortState& port, Frame& frame) {
  gather(frame);
  Frame* copy = nullptr;
  if (port.port->allocate(&copy, 1) == 0) {
    return nullptr;
  }
  if (frame.length > copy->capacity) {
    port.port->release(&copy, 1);
    return nullptr;
  }
  std::memcpy(copy->data, frame.data, frame.length);
  copy->length = frame.length;
  copy->icrc_left_out = frame.icrc_left_out;
  copy->port = port.index;
  copy->icrc_checked = frame.icrc_checked;
  copy->sent_for = frame.sent_for;
  copy->capture_serial = frame.capture_serial;  // it shares the original's fate
  return copy;
}

namespace {

bool has_address(const PortState& port, const Gid& gid) {
  return std::any_of(port.addresses.begin(), port.addresses.end(),
                     [&](const LinkAddress& address) { return address.gid == gid; });
}

// Groups have no VLAN of their own: they are received in those where the port has an address.
bool is_in_vlan(const PortState& port, std::uint16_t vlan) {
  return std::any_of(port.addresses.begin(), port.addresses.end(),
                     [&](const LinkAddress& address) { return address.vlan == vlan; });
}

}  // namespace

// A packet that isn't for any of the port's own addresses.
void Worker::State::steer_group(PortState& port, Frame* frame) {
  const Packet& packet = frame->packet;
  const auto group = port.groups.find(packet.destination_gid());
  if (group == port.groups.end() || packet.dest_qpn != kMulticastQpn ||
      opcode_info(packet.opcode).transport != Transport::kUd) {
    return drop(frame, has_address(port, packet.destination_gid()) ? Drop::kWrongVlan
                                                                   : Drop::kNotOurAddress);
  }
  if (!is_in_vlan(port, packet.vlan_id())) {
    return drop(frame, Drop::kWrongVlan);
  }
  std::uint64_t owners = 0;
  for (const std::uint32_t member : group->second) {
    owners |= std::uint64_t{1} << (member % config.workers);
  }
  while (owners != 0) {
    const auto owner = static_cast<std::size_t>(std::countr_zero(owners));
    owners &= owners - 1;
    Frame* given = owners == 0 ? frame : copy_of(port, *frame);
    if (given == nullptr || (given != frame && parse_headers(*given) != Drop::kNone)) {
      ++counters.drops[Drop::kNoBuffer];
      if (given != nullptr) {
        release(given);
      }
      continue;
    }
    hand_over_to_group(owner, given);
  }
}

void Worker::State::hand_over_to_group(std::size_t worker, Frame* frame) {
  State& owner = worker == config.index ? *this : *peers[worker]->state_;
  if (owner.group_ring->enqueue(&frame, 1) == 0) {
    return drop(frame, Drop::kRingFull);
  }
  if (&owner == this) {
    return;
  }
  ++counters.handed_over;
  if (owner.config.wakeup != nullptr) {
    owner.config.wakeup->wake();
  }
}

// What is left waits for the next turn.
bool Worker::State::drain_groups() {
  std::uint32_t shown = 0;
  Frame* frame = nullptr;
  while (shown < kGroupReceivesMax && group_ring->dequeue(&frame, 1) == 1) {
    shown += std::max(deliver_group(frame), 1U);
  }
  return shown > 0;
}

// A frame that several members look at can't wait for one of them: a copy does.
void Worker::State::park_copy(QpEntry& entry, PortState& port, Frame& frame) {
  Frame* const copy = copy_of(port, frame);
  if (copy != nullptr && parse_headers(*copy) == Drop::kNone) {
    return park(entry, Role::kResponder, copy);
  }
  ++counters.drops[Drop::kNoBuffer];
  if (copy != nullptr) {
    release(copy);
  }
  if (!entry.parks(Role::kResponder)) {
    Turn turn = make_turn(entry);
    entry.qp->on_parked_dropped(turn);
  }
}

// Shows the frame to each member that this worker owns. Returns how many these are.
std::uint32_t Worker::State::deliver_group(Frame* frame) {
  PortState& port = *ports[frame->port];
  const Packet& packet = frame->packet;
  const auto group = port.groups.find(packet.destination_gid());
  if (group == port.groups.end()) {
    drop(frame, Drop::kUnknownQp);
    return 0;
  }
  std::uint32_t shown = 0;
  const bool own = has_address(port, packet.source_gid());
  may_defer = false;
  for (const std::uint32_t member : group->second) {
    QpEntry* entry = member % config.workers == config.index ? table.find(member) : nullptr;
    if (entry == nullptr || (own && packet.deth().source_qpn == member)) {
      continue;
    }
    ++shown;
    Turn turn = make_turn(*entry);
    Drop reason = Drop::kNone;
    if (entry->parks(Role::kResponder) ||
        entry->qp->receive(*frame, turn, &reason) == Step::kParked) {
      park_copy(*entry, port, *frame);
    }
    if (reason != Drop::kNone) {
      ++counters.drops[reason];
    }
    update(*entry);
  }
  may_defer = true;
  release(frame);
  return shown;
}

// A frame to a group leaves by a port that won't loop it back: makes a copy for the members here,
// if there are any. Once per frame, which may wait here for the port over several turns.
void Worker::State::loop_back_group(PortState& port, Frame* frame) {
  if (port.groups.empty() || frame->hairpin || port.hairpin.size() >= kGroupCopiesMax) {
    return;
  }
  frame->hairpin = true;
  if (parse_headers(*frame) != Drop::kNone ||
      !port.groups.contains(frame->packet.destination_gid())) {
    return;
  }
  if (Frame* copy = copy_of(port, *frame); copy != nullptr) {
    port.hairpin.push_back(copy);
  } else {
    ++counters.drops[Drop::kNoBuffer];
  }
}

void Worker::attach(std::uint16_t port, const Gid& group, std::uint32_t qpn) {
  state_->ports[port]->groups[group].push_back(qpn);
  state_->knows_groups = true;
}

void Worker::detach(std::uint16_t port, const Gid& group, std::uint32_t qpn) {
  auto& groups = state_->ports[port]->groups;
  const auto found = groups.find(group);
  if (found == groups.end()) {
    return;  // what was asked of all workers was cut short, and is asked again
  }
  std::erase(found->second, qpn);
  if (found->second.empty()) {
    groups.erase(found);
  }
}

}  // namespace uroce
