// READ responses and atomic acknowledgements, processed strictly in order.

#include <algorithm>
#include <array>
#include <cstring>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

Step Requester::on_read_response(const Packet& packet, Turn& turn, Drop* drop) {
  // It acknowledges everything before its own request.
  if (!acknowledge_before(packet.psn, turn)) {
    return answer_missing(packet, turn, drop);
  }
  const SendEntry& entry = queue_.entry(queue_.tail());
  const std::uint32_t index = psn_distance(entry.first_psn, packet.psn);
  const std::uint32_t offset = index << mtu_shift_;
  // Whether a READ retried from the middle is answered with FIRST or ONLY, or continued with MIDDLE
  // or LAST, differs between peers (Responder::replay_read); only the end must be at the right PSN:
  // that of the READ, and perhaps that of a part that was requested again.
  const bool last = index + 1 == entry.packet_count;
  const bool ends = opcode_info(packet.opcode).last;
  const bool reads = entry.opcode == abi::WrOpcode::kRdmaRead;
  const std::uint32_t length = reads ? std::min(1U << mtu_shift_, entry.length - offset) : 0;
  if (!(reads || entry.extension()) || (ends != last && !(ends && entry.in_parts)) ||
      packet.payload_length != length) {
    fail_oldest(abi::WcStatus::kBadRespErr, Failure::kBadResponse, turn);
    return Step::kDone;
  }
  return take_answer(packet.payload, offset, packet.payload_length, turn);
}

Step Requester::on_atomic_acknowledge(const Packet& packet, Turn& turn, Drop* drop) {
  if (!acknowledge_before(packet.psn, turn)) {
    return answer_missing(packet, turn, drop);
  }
  const SendEntry& entry = queue_.entry(queue_.tail());
  if (!entry.atomic_result()) {
    fail_oldest(abi::WcStatus::kBadRespErr, Failure::kBadResponse, turn);
    return Step::kDone;
  }
  // The value is stored in the byte order of the program's processor.
  const std::uint64_t original = packet.atomic_ack();
  std::array<std::byte, sizeof(original)> bytes;
  std::memcpy(bytes.data(), &original, sizeof(original));
  return take_answer(bytes.data(), 0, sizeof(original), turn);
}

// Stores the response for unacked_psn_ and advances.
Step Requester::take_answer(const std::byte* bytes, std::uint32_t offset, std::uint32_t length,
                            Turn& turn) {
  const std::uint32_t tail = queue_.tail();
  const bool more = offset + length < queue_.entry(tail).length;
  const Access access = scatter(qp_.memory(FaultRole::kCompleter, turn), queue_.sges(tail), offset,
                                bytes, length, more);
  if (access == Access::kNotResident) {
    receive_parked_ = true;
    return Step::kParked;
  }
  if (access != Access::kGranted) {
    fail_oldest(abi::WcStatus::kLocProtErr, send_failure(access), turn);
    return Step::kDone;
  }
  take_answered(1, length, turn);
  return Step::kDone;
}

// The response for `psns` PSNs from unacked_psn_ on, all of the oldest entry's, has been stored.
void Requester::take_answered(std::uint32_t psns, std::uint32_t length, Turn& turn) {
  qp_.counters_.bytes_received += length;
  const SendEntry& entry = queue_.entry(queue_.tail());
  if (entry.opcode == abi::WrOpcode::kRdmaRead) {
    read_frames_out_ -= std::min(read_frames_out_, psns);
  }
  const std::uint32_t before = unacked_psn_;
  unacked_psn_ = psn_add(unacked_psn_, psns);
  if (unacked_psn_ == entry.end_psn()) {
    retire_oldest(turn);
  }
  peer_buffering_.answered(unacked_psn_);
  progressed(before, turn);
}

}  // namespace uroce
