// The sending end of a worker: queue pairs in turn, then the port.

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/prefetch.h"
#include "base/probe.h"
#include "dataplane/engine/turn/tx_refill.h"
#include "dataplane/engine/worker_state.h"

namespace uroce {
namespace {

// A frame begins with its destination address, whose first byte has the multicast bit.
constexpr std::uint64_t kMacBits = (1ULL << 48U) - 1;
constexpr std::uint64_t kGroupBit = 1;
static_assert(std::endian::native == std::endian::little);

// REQUIRES: it has eight bytes; every frame that was built has.
std::uint64_t first_bytes(const std::byte* frame) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, frame, sizeof(bytes));
  return bytes;
}

}  // namespace

// As many bursts as the port wants in a turn, as long as each of them is full and the port accepts
// it. What the port sends to itself comes before what arrives in the next turn, and leaves it room.
bool Worker::State::transmit_bursts(PortState& port) {
  bool any = false;
  bool more = true;
  for (std::uint32_t burst = 0; more && burst < port.turn_bursts; ++burst) {
    any |= transmit(port);
    charge_to_no_user();
    const bool whole = port.tx.ready_count() >= port.turn_burst;
    any |= send(port);
    more = whole && port.tx.ready_count() == 0 && port.hairpin.size() < kHairpinTurnMax;
  }
  return any;
}

// With more queue pairs in line than the second-level cache holds, prefetches for three of them:
// the work request of the next, the state of the one after it, the entry of the third. So each step
// finds what the one before loaded. Those of the same user, whose turn mostly comes next.
void Worker::State::prefetch_in_line(const QpEntry& entry) {
  const QpEntry* const next = entry.next;
  if (next == nullptr) {
    return;
  }
  next->qp->prefetch_work();
  if (next->next != nullptr) {
    next->next->qp->prefetch_sending();
    prefetch_lines(next->next->next, sizeof(QpEntry));
  }
}

// Lets the first queue pair in line send up to `granted` bytes.
inline Worker::State::Visit Worker::State::visit_in_line(PortState& port, QpEntry& entry,
                                                         std::uint32_t granted) {
  Turn turn = make_turn(entry);
  turn.read_credits = read_credits(port, entry);
  QpEntry* const peer = usable_local_peer(port, entry);
  turn.local_peer = peer == nullptr ? nullptr : peer->qp;
  // If no other queue pair wants to send, this one would be visited until the burst is full, so
  // sending beyond the grant takes nothing from anybody: one long visit costs less than many.
  const bool alone = port.run_queue.size() == 1;
  const std::uint32_t sent =
      entry.qp->transmit(turn, alone ? std::max(granted, kAloneBytes) : granted);
  count_reads(entry);
  if (turn.direct_bytes != 0) {
    if (turn.local_peer_answered) {
      update(*peer);
    } else if (peer->qp->answers_due()) {
      queue_up(*peer);
    }
  }
  return {.sent = alone ? std::min(sent, granted) : sent, .direct_bytes = turn.direct_bytes};
}

// Lets the queue pairs with work send by deficit round robin until the burst is full.
bool Worker::State::transmit(PortState& port) {
  RunQueue& queue = port.run_queue;
  TxBatch& tx = port.tx;
  // Frames that the port refused leave first, so that no backlog builds up here.
  if (queue.empty() || tx.ready_count() >= port.turn_burst) {
    return false;
  }
  if (tx.room() < port.turn_burst) {
    refill_tx(tx, *port.port, port.turn_burst, &port.generation);
    if (tx.room() == 0 && tx.ready_count() == 0 && out_of_order_frames.total() != 0) [[unlikely]] {
      drop_out_of_order_on(port);
    }
  }
  bool any = false;
  std::uint32_t direct_bytes = 0;
  // Each visit sends, or counts towards one round of all in vain.
  std::uint32_t in_vain = 0;
  std::uint32_t fruitless = 0;
  while (!queue.empty() && tx.room() > 0 && in_vain <= queue.size() && fruitless < kFruitlessMax &&
         direct_bytes < kDirectBytesMax) {
    QpEntry& entry = *queue.front();
    if (queue.size() > kCachedMax) {
      prefetch_in_line(entry);
    }
    if (config.direct && entry.next != nullptr) {
      prefetch_local_peer(*entry.next);
    }
    const std::uint32_t granted = queue.grant(entry);
    Visit visit;
    if (granted > 0) {
      visit = visit_in_line(port, entry, granted);
      fruitless += visit.sent == 0 ? 1 : 0;
      direct_bytes += visit.direct_bytes;
    }
    queue.settle(entry, visit.sent, entry.qp->has_work(), tx.room() == 0);
    update_timer(entry);
    in_vain = visit.sent > 0 ? 0 : in_vain + 1;
    any |= visit.sent > 0;
  }
  return any || fruitless == kFruitlessMax;
}

// With a card, the program's store rings the doorbell itself, and the card processes earlier
// doorbells before a command: so work posted before ibv_destroy_qp is, as a rule, sent once, and
// programs rely on that for the last datagram of a conversation. The frames leave in the worker's
// next turn. If the send fails (the port is full, memory has to be waited for), it is lost, as it
// may be on a wire.
void Worker::send_posted(Qp& qp) {
  State& self = *state_;
  QpEntry* const entry = self.table.find(qp.config().qpn);
  if (entry == nullptr || entry->qp != &qp) {
    return;
  }
  PortState& port = *self.ports[entry->port];
  if (qp.state() == QpState::kRts) {
    Turn turn = self.make_turn(*entry);
    qp.on_doorbell(turn);
  }
  qp.hold_nothing_back();  // there will be no answers to wait for
  for (std::uint32_t left = kPostedBytesMax; left > 0 && qp.has_work();) {
    if (port.tx.room() < port.turn_burst) {
      refill_tx(port.tx, *port.port, port.turn_burst, &port.generation);
    }
    Turn turn = self.make_turn(*entry);
    turn.read_credits = ReadCredits::none();  // nobody would receive the answer
    const std::uint32_t sent = qp.transmit(turn, left);
    self.count_reads(*entry);
    if (sent == 0) {
      break;
    }
    left -= std::min(left, sent);
  }
  self.flush_queues();
}

// Frames for the port's own address never reach a wire: switches don't send them back, and where
// they do come back (the kernel's loopback), some would overtake others.
void Worker::State::take_hairpins(PortState& port) {
  TxBatch& tx = port.tx;
  Frame** ready = tx.ready();
  std::uint32_t kept = 0;
  std::uint64_t own = 0;
  std::memcpy(&own, port.mac.bytes.data(), port.mac.bytes.size());
  for (std::uint32_t i = 0; i < tx.ready_count(); ++i) {
    Frame* frame = ready[i];
    const std::uint64_t destination = first_bytes(frame->data) & kMacBits;
    const bool is_own = destination == own;
    UROCE_CHECK(!is_own || port.hairpin.size() < kHairpinMax);
    if (is_own) {
      port.hairpin.push_back(frame);
      continue;
    }
    if ((destination & kGroupBit) != 0) {
      loop_back_group(port, frame);
    }
    ready[kept++] = frame;
  }
  counters.tx_frames += tx.ready_count() - kept;
  tx.keep(kept);
}

// A queue pair that goes to RTR begins a life. Frames that still wait here and that it sent, or
// that are for it, are of an earlier one: with the worker woken but without a processor yet, a
// program can reset and reconnect both ends before the worker's next turn, and often chooses the
// same PSNs. Frames that were handed over are received first, in a state that drops them. What
// another worker still holds may come later, as may what is on a wire, and datagrams for groups,
// which have no place in a sequence.
void Worker::State::end_earlier_life(PortState& port, std::uint32_t qpn) {
  for (const Role role : {Role::kCompleter, Role::kResponder}) {
    // No more than is there now: other workers may go on adding.
    for (std::uint32_t left = rings[role]->size(); left > 0; left -= std::min(left, kDrainMax)) {
      drain_frames(role);
    }
  }
  charge_to_no_user();
  std::uint64_t own = 0;
  std::memcpy(&own, port.mac.bytes.data(), port.mac.bytes.size());
  const auto is_earlier = [&](Frame* frame) {
    return frame->sent_for.qpn == qpn ||
           ((first_bytes(frame->data) & kMacBits) == own && parse_headers(*frame) == Drop::kNone &&
            frame->packet.dest_qpn == qpn);
  };
  TxBatch& tx = port.tx;
  std::uint32_t kept = 0;
  std::uint32_t kept_captured = 0;
  for (std::uint32_t i = 0; i < tx.ready_count(); ++i) {
    Frame* const frame = tx.ready()[i];
    if (is_earlier(frame)) {
      ++counters.drops[Drop::kWrongQpState];
      port.releases.push_back(frame);
    } else {
      tx.ready()[kept++] = frame;
      kept_captured += i < port.captured ? 1 : 0;
    }
  }
  tx.keep(kept);
  port.captured = kept_captured;
  std::erase_if(port.hairpin, [&](Frame* frame) {
    const bool earlier = is_earlier(frame);
    if (earlier) {
      frame->port = port.index;
      drop(frame, Drop::kWrongQpState);
    }
    return earlier;
  });
}

bool Worker::State::send(PortState& port) {
  TxBatch& tx = port.tx;
  if (tx.ready_count() == 0) {
    return false;
  }
  const std::uint32_t before = tx.ready_count();
  if (capture != nullptr) [[unlikely]] {
    for (std::uint32_t i = port.captured; i < before; ++i) {
      complete(*tx.ready()[i]);
      capture->sent(*tx.ready()[i], port.index, now);
    }
  }
  if (!port.loops_back) {
    take_hairpins(port);
  }
  const std::uint32_t sent = port.port->tx_burst(static_cast<std::uint16_t>(config.index),
                                                 tx.ready(), tx.ready_count(), now);
  tx.sent(sent);
  UROCE_PROBE3(send, config.index, port.index, sent);
  counters.tx_frames += sent;
  if (sent > 0 || tx.ready_count() == 0) {
    port.refused_since = kNever;
  } else if (port.refused_since == kNever) {
    port.refused_since = ran();
  } else if (ran() - port.refused_since >= kStallMax) {
    drop_unsent(port);
  }
  port.captured = tx.ready_count();
  return tx.ready_count() < before;
}

void Worker::State::drop_unsent(PortState& port) {
  TxBatch& tx = port.tx;
  counters.tx_lost += tx.ready_count();
  port.releases.insert(port.releases.end(), tx.ready(), tx.ready() + tx.ready_count());
  tx.keep(0);
}

}  // namespace uroce
