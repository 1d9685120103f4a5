// The sending end of a worker: queue pairs in turn, then the port.

#include <algorithm>

#include "dataplane/engine/worker_state.h"

namespace uroce {

// Lets the queue pairs with work send by deficit round robin until the burst is full.
bool Worker::State::transmit(PortState& port) {
  RunQueue& queue = port.run_queue;
  TxBatch& tx = port.tx;
  // Frames that the port refused leave first, so that no backlog builds up here.
  if (queue.empty() || tx.ready_count() >= port.turn_burst) {
    return false;
  }
  if (tx.room() < port.turn_burst) {
    tx.added(
        port.port->allocate(tx.free_tail(), std::min(port.turn_burst - tx.room(), tx.wanted())));
  }
  bool any = false;
  // Each visit sends, or counts towards one fruitless round of all.
  std::uint32_t fruitless = 0;
  while (!queue.empty() && tx.room() > 0 && fruitless <= queue.size()) {
    QpEntry& entry = *queue.front();
    const std::uint32_t granted = RunQueue::grant(entry);
    std::uint32_t sent = 0;
    if (granted > 0) {
      Turn lent = turn(entry);
      lent.read_room = read_room(port, entry);
      sent = entry.qp->transmit(lent, granted);
      count_reads(entry);
    }
    queue.settle(entry, sent, entry.qp->has_work(), tx.room() == 0);
    timers.update(entry, entry.qp->deadline());
    fruitless = sent > 0 ? 0 : fruitless + 1;
    any |= sent > 0;
  }
  return any;
}

// Frames for the port's own address never reach a wire: switches don't send them back.
void Worker::State::take_hairpins(PortState& port) {
  TxBatch& tx = port.tx;
  Frame** ready = tx.ready();
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < tx.ready_count(); ++i) {
    Frame* frame = ready[i];
    EtherAddress destination;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(frame->data), destination.bytes.size(),
                destination.bytes.begin());
    if (destination == port.mac && port.hairpin.size() < kHairpinMax) {
      port.hairpin.push_back(frame);
    } else {
      if (destination.is_multicast()) {
        loop_back_group(port, frame);
      }
      ready[kept++] = frame;
    }
  }
  counters.tx_frames += tx.ready_count() - kept;
  tx.keep(kept);
}

bool Worker::State::send(PortState& port) {
  TxBatch& tx = port.tx;
  if (tx.ready_count() == 0) {
    return false;
  }
  const std::uint32_t before = tx.ready_count();
  if (!port.loops_back) {
    take_hairpins(port);
  }
  const std::uint32_t sent = port.port->tx_burst(static_cast<std::uint16_t>(config.index),
                                                 tx.ready(), tx.ready_count(), now);
  tx.sent(sent);
  counters.tx_frames += sent;
  if (sent > 0 || tx.ready_count() == 0) {
    port.refused_since = kNever;
  } else if (port.refused_since == kNever) {
    port.refused_since = ran();
  } else if (ran() - port.refused_since >= kStallMax) {
    lose_ready(port);
  }
  return tx.ready_count() < before;
}

void Worker::State::lose_ready(PortState& port) {
  TxBatch& tx = port.tx;
  counters.tx_lost += tx.ready_count();
  port.releases.insert(port.releases.end(), tx.ready(), tx.ready() + tx.ready_count());
  tx.keep(0);
}

}  // namespace uroce
