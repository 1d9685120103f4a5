// Selective retransmission, without going back: holes, and the probe of the oldest packet if the
// peer is silent for a while.

#include <algorithm>
#include <utility>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

// The entry that a PSN lies in. REQUIRES: it is outstanding.
std::uint32_t Requester::index_of(std::uint32_t psn) const {
  std::uint32_t index = queue_.tail();
  while (psn_distance(queue_.entry(index).first_psn, psn) >= queue_.entry(index).packet_count) {
    ++index;
  }
  return index;
}

// Sends holes again, oldest first. The cursor is moved to their place for that time.
std::uint32_t Requester::send_holes(Turn& turn, std::uint32_t bytes_max) {
  std::uint32_t bytes = scoreboard_.wants_request() ? send_sack_request(turn) : 0;
  while (bytes < bytes_max && repair_.has_waiting() && !send_parked_) {
    Hole& hole = repair_.next_waiting();
    const std::uint32_t sent = send_hole(hole, turn);
    if (sent == 0) {
      break;
    }
    bytes += sent;
    repair_.retransmitted(hole, high_psn_, turn.now);
    ++qp_.counters_.resends_single;
  }
  return bytes;
}

std::uint32_t Requester::send_hole(const Hole& hole, Turn& turn) {
  const std::uint32_t psn = std::exchange(cursor_psn_, hole.psn);
  const std::uint32_t index = std::exchange(cursor_index_, index_of(hole.psn));
  hole_count_ = hole.count;
  const std::uint32_t bytes = send_next(turn);
  hole_count_ = 0;
  if (!sending()) {
    return 0;  // it can't be sent, and nothing is outstanding any more
  }
  cursor_psn_ = psn;
  cursor_index_ = index;
  return bytes;
}

// How many of the PSNs from unacked_psn_ on one packet can cover: what is missing of a READ there,
// otherwise one.
std::uint32_t Requester::oldest_count() const {
  const SendEntry& entry = queue_.entry(queue_.tail());
  if (entry.opcode != abi::WrOpcode::kRdmaRead) {
    return 1;
  }
  const std::uint32_t rest = entry.packet_count - psn_distance(entry.first_psn, unacked_psn_);
  // Nothing is buffered beyond.
  const std::uint32_t end = std::min(rest, OutOfOrderPackets::kSpan);
  std::uint32_t count = 1;
  while (count < end && !out_of_order_.has(psn_add(unacked_psn_, count))) {
    ++count;
  }
  return count == end ? rest : count;
}

// The peer is silent for longer than usual. Whatever was lost, a request, its answer or a
// retransmission: the oldest unacknowledged packet makes the peer report its state. That costs at
// most one packet, so it isn't a retry. If the peer took that packet and expects the next,
// everything behind it was lost, too.
void Requester::on_silence(Turn& turn) {
  const std::uint32_t waiting = repair_.waiting();
  // Otherwise there is nothing to probe with, or it is being sent.
  const bool may_probe = cursor_psn_ != unacked_psn_ && !resends_freely();
  if (repair_.on_time(turn.now, may_probe)) {
    probe();
  }
  qp_.counters_.roce_adp_retrans += repair_.waiting() - std::min(waiting, repair_.waiting());
}

void Requester::probe() {
  if (probed_ && unacked_psn_ == probe_end_ && scoreboard_.count() == 0) {
    probed_ = false;
    return resend_all();
  }
  probe_end_ = psn_add(unacked_psn_, oldest_count());
  probed_ = cursor_psn_ != probe_end_;  // something was sent behind it
  ++qp_.counters_.tail_probes;
  round_trip_.resent(probe_end_);
  repair_.add_again(unacked_psn_, oldest_count());
}

// A NAK: the peer has everything before unacked_psn_ and misses that packet.
void Requester::on_sequence_nak(Turn& turn) {
  loss_shown_ = turn.recovery == Recovery::kSelective;
  if (turn.recovery == Recovery::kGoBackN ||
      !peer_buffering_.resend_single(unacked_psn_, oldest_count())) {
    (void)retry_early(turn);
    return;
  }
  silent_timeouts_ = 0;
  if (rnr_waiting_ || cursor_psn_ == unacked_psn_) {
    return;  // all of it is about to be sent
  }
  // The timer continues unless something has advanced since it was started: a peer that names the
  // same packet for ever is given up eventually.
  if (!retried_early_) {
    retried_early_ = true;
    arm_timer(turn.now);
  }
  round_trip_.cancel();
  scoreboard_.on_nak();
  if (!repair_.add(unacked_psn_, oldest_count())) {
    resend_all();
  }
}

// An acknowledgement arrived. It may show whether the peer buffers out-of-order packets, after one
// was retransmitted alone.
void Requester::on_ack_after_single_resend() {
  if (!peer_buffering_.watches()) {
    return;
  }
  const bool more = unacked_psn_ != cursor_psn_;
  switch (peer_buffering_.acknowledged(unacked_psn_, more ? oldest_count() : 0)) {
    case PeerBuffering::Next::kGoOn:
      return;
    case PeerBuffering::Next::kSingle:
      round_trip_.cancel();
      if (cursor_psn_ == unacked_psn_ || repair_.add(unacked_psn_, oldest_count())) {
        return;
      }
      break;
    case PeerBuffering::Next::kAll:
      break;
  }
  resend_all();
}

// From unacked_psn_ on. Not a retry: the peer has acknowledged progress.
void Requester::resend_all() {
  ++qp_.counters_.resends_gone_back;
  reduce_window();
  move_cursor_to_unacked();
}

}  // namespace uroce
