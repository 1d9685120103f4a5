// The requester's side of direct transfers: has the local peer execute requests, and takes the
// answers that it passes back. Whatever isn't granted at once is left to frames, without side
// effects.

#include <algorithm>

#include "dataplane/qp/direct/direct_answer.h"
#include "dataplane/qp/direct/locate.h"
#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/wire/build.h"

namespace uroce {

// A SEND that invalidates may fail after it has been executed, which only frames can report.
bool Requester::needs_frames(const SendEntry& entry) {
  return entry.extension() || entry.opcode == abi::WrOpcode::kSendWithInv;
}

// Nothing may be outstanding: a retransmission must never meet what was executed already.
bool Requester::may_go_directly(const SendEntry& entry, const Turn& turn) const {
  return direct_policy_.open() && turn.local_peer != nullptr && cursor_psn_ == unacked_psn_ &&
         cursor_psn_ == high_psn_ && !needs_frames(entry);
}

// As much of the entry at the cursor as `bytes_max` allows; returns the bytes charged for it, 0 if
// frames must be sent.
[[gnu::flatten]] std::uint32_t Requester::send_directly(Turn& turn, std::uint32_t bytes_max) {
  const SendEntry& entry = queue_.entry(cursor_index_);
  const bool wants_response = entry.wants_response();
  const std::uint32_t first = psn_distance(entry.first_psn, cursor_psn_);
  const std::uint32_t rest = entry.packet_count - first;
  const std::uint32_t packets =
      wants_response ? rest : std::min(rest, std::max(1U, bytes_max >> mtu_shift_));
  const std::uint32_t offset = first << mtu_shift_;
  const std::uint32_t length =
      wants_response ? 0 : std::min(packets << mtu_shift_, entry.length - offset);
  ByteRuns runs;
  if (length != 0 && !locate_payload(entry, offset, length, turn, &runs)) {
    direct_policy_.declined();
    return 0;
  }
  const Headers headers = !wants_response ? message_headers(entry, first, packets)
                          : entry.opcode == abi::WrOpcode::kRdmaRead
                              ? read_headers(entry, 0, entry.length)
                              : atomic_headers(entry);
  if (!turn.local_peer->execute_directly(Request(headers, packets, length, runs.all()), turn)) {
    direct_policy_.declined();
    return 0;
  }
  direct_policy_.taken();
  took_directly(entry, packets, length, turn);
  return length + kDirectCost;
}

// Locates the bytes with which packets would be filled.
bool Requester::locate_payload(const SendEntry& entry, std::uint32_t offset, std::uint32_t length,
                               const Turn& turn, ByteRuns* runs) {
  if (entry.has(abi::kInline)) {
    return runs->add(queue_.inline_bytes(cursor_index_) + offset, length);
  }
  const MemoryScope scope{
      .keys = turn.keys, .pd = qp_.config_.pd, .qpn = qp_.config_.qpn, .mapped_only = true};
  if (locate(scope, queue_.sges(cursor_index_), offset, length, runs) != Access::kGranted) {
    return false;
  }
  // Programs watch the last bytes of a WRITE: the last packet is copied after all others.
  const std::uint32_t last = (length - 1) & ((1U << mtu_shift_) - 1);
  return length <= 1U << mtu_shift_ || runs->set_apart(last + 1);
}

// The peer has executed it: the state changes as if packets had been sent and, unless a response is
// due, acknowledged.
void Requester::took_directly(const SendEntry& entry, std::uint32_t packets, std::uint32_t length,
                              Turn& turn) {
  turn.direct_bytes += length + kDirectCost;
  qp_.counters_.direct_bytes += length;
  advance_cursor(entry, packets);
  if (cursor_index_ == begun_index_) {
    ++qp_.counters_.direct_messages;
  }
  if (!qp_.config_.reliable()) {
    return;  // transmit() retires it
  }
  if (entry.wants_response()) {
    ack_requested_ = true;
    ack_requested_psn_ = psn_before(cursor_psn_);
    read_frames_out_ += entry.opcode == abi::WrOpcode::kRdmaRead ? packets : 0;
    return;
  }
  // progressed(), given that nothing was outstanding.
  unacked_psn_ = cursor_psn_;
  start_counters_afresh();
  if (queue_.tail() != cursor_index_) {
    retire_oldest(turn);
    fail_refused(turn);
    announce_drained(turn);
  }
  if (receiver_window_.limited()) [[unlikely]] {
    receiver_took();
  }
}

bool Requester::take_directly(const DirectAnswer& answer, Turn& turn) {
  if (!sending() || receive_parked_ || out_of_order_.count() != 0 || answer.psn != unacked_psn_ ||
      !outstanding(answer.psn)) {
    return false;
  }
  const std::uint32_t tail = queue_.tail();
  const SendEntry& entry = queue_.entry(tail);
  const FaultSlot& slot = qp_.fault_slots_[FaultRole::kCompleter];
  const bool reads = entry.opcode == abi::WrOpcode::kRdmaRead;
  const std::uint32_t first = psn_distance(entry.first_psn, answer.psn);
  const std::uint32_t offset = first << mtu_shift_;
  const bool suits =
      reads ? answer.operation == Operation::kReadRequest &&
                  first + answer.packets <= entry.packet_count &&
                  answer.length == std::min(answer.packets << mtu_shift_, entry.length - offset)
            : answer.operation != Operation::kReadRequest && entry.atomic_result();
  if (!suits || slot.slow != nullptr) {
    return false;
  }
  const MemoryScope scope{
      .keys = turn.keys, .pd = qp_.config_.pd, .qpn = qp_.config_.qpn, .mapped_only = true};
  std::uint32_t at = offset;
  for (const ByteRun& run : answer.payload) {
    if (scatter(scope, queue_.sges(tail), at, run.start, run.length) != Access::kGranted) {
      return false;
    }
    at += run.length;
  }
  retry_budget_.on_peer_alive(turn.ran());
  take_answered(answer.packets, answer.length, turn);
  settle_answered(turn);
  return true;
}

}  // namespace uroce
