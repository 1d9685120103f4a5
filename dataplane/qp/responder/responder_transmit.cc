// Answers, in the order of their PSNs: READs and atomics first, then a NAK or an acknowledgement,
// each of which acknowledges everything before it.

#include <algorithm>
#include <utility>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/opcode_for.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/recovery/rnr_timer.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/build.h"

namespace uroce {
namespace {

Opcode read_response(bool first, bool last) {
  if (first) {
    return last ? Opcode::kRcReadResponseOnly : Opcode::kRcReadResponseFirst;
  }
  return last ? Opcode::kRcReadResponseLast : Opcode::kRcReadResponseMiddle;
}

}  // namespace

std::uint32_t Responder::transmit(Turn& turn, std::uint32_t bytes_max) {
  std::uint32_t sent = 0;
  while (sent < bytes_max && turn.tx.room() != 0 && has_work()) {
    sent += transmit_next(turn, bytes_max - sent);
  }
  return sent;
}

// Sends one frame, or part of a direct response; 0 if there is none to send after all.
std::uint32_t Responder::transmit_next(Turn& turn, std::uint32_t bytes_max) {
  if (sack_pending_) [[unlikely]] {
    return transmit_sack(turn);
  }
  Resource* const resource = resources_.next_pending();
  if (busy_ && (resource == nullptr || answer_parked_)) {
    return transmit_busy(turn);
  }
  if (resource != nullptr) {
    return transmit_resource(*resource, turn, bytes_max);
  }
  if (nak_ != PendingNak::kNone) {
    return transmit_nak(turn);
  }
  ack_pending_ = false;
  ++qp_->counters_.acks_sent;
  return transmit_aeth({.syndrome = kSyndromeAckUnlimited, .msn = ack_msn_}, ack_psn_, turn);
}

std::uint32_t Responder::transmit_resource(Resource& resource, Turn& turn,
                                           std::uint32_t bytes_max) {
  const bool patch = resource.patching();
  if (turn.local_peer != nullptr && !patch && !resource.replay) {
    if (const std::uint32_t bytes = answer_directly(resource, turn, bytes_max); bytes != 0) {
      return bytes;
    }
  }
  std::uint32_t& next = patch ? resource.patch_next : resource.packet_next;
  const std::uint32_t length_end = patch ? resource.patch_length_end : resource.length_end;
  const std::uint32_t psn = psn_add(resource.psn_first, next);
  const bool last = next + 1 == (patch ? resource.patch_end : resource.packet_end);
  const std::uint32_t mtu = qp_->attributes_.path_mtu;
  const std::uint32_t offset = next * mtu;
  const std::uint32_t length = std::min(mtu, length_end - offset);
  const bool atomic =
      resource.operation == Operation::kCompareSwap || resource.operation == Operation::kFetchAdd;
  const Opcode opcode = atomic ? Opcode::kRcAtomicAcknowledge : read_response(next == 0, last);
  const Headers headers{.opcode = opcode_for(qp_->config_.type, opcode),
                        .dest_qpn = qp_->attributes_.dest_qpn,
                        .psn = psn,
                        .aeth = {.syndrome = kSyndromeAckUnlimited, .msn = resource.msn},
                        .atomic_ack = resource.original};
  Frame* frame = turn.tx.take();
  FrameWriter writer(*frame, qp_->frame_template_, headers, length, qp_->ip_id_++);
  MemoryScope scope = qp_->memory(FaultRole::kAnswer, turn);
  scope.pd = resource.pd;
  scope.message = resource.psn_first;
  const Access access = read_remote(scope,
                                    {.rkey = resource.rkey,
                                     .address = resource.address + offset,
                                     .length = length,
                                     .ahead = length_end - offset - length},
                                    writer);
  if (access != Access::kGranted) {
    turn.tx.put_back(frame);
    refuse_answer(access, resource, psn, turn);
    return 0;
  }
  writer.finish();
  frame->sent_for = {.qpn = qp_->config_.qpn, .cause = SentFor::Cause::kResponse};
  turn.tx.send(frame);
  ++qp_->counters_.responses_sent;
  if (ack_pending_ && psn_difference(psn, ack_psn_) >= 0) {
    ack_pending_ = false;  // 9.7.5.1: a response acknowledges all requests before it
  }
  if (last && !patch) {
    resources_.answered(resource);
  } else {
    ++next;
  }
  return frame->length;
}

std::uint32_t Responder::transmit_nak(Turn& turn) {
  // Everything before a NAK's PSN is acknowledged by it.
  ack_pending_ = false;
  const PendingNak nak = std::exchange(nak_, PendingNak::kNone);
  Aeth aeth{.syndrome = kSyndromeNak, .msn = msn_};
  if (nak == PendingNak::kRnr) {
    ++qp_->counters_.rnr_naks_sent;
    aeth.syndrome = kSyndromeRnr | (qp_->attributes_.min_rnr_timer & kSyndromeValueMask);
    return transmit_aeth(aeth, expected_psn_, turn);
  }
  ++qp_->counters_.naks_sent;
  if (nak == PendingNak::kSequence) {
    return transmit_aeth(aeth, expected_psn_, turn);
  }
  aeth.syndrome |= static_cast<std::uint8_t>(nak_code_);
  return transmit_aeth(aeth, nak_psn_, turn);
}

std::uint32_t Responder::transmit_busy(Turn& turn) {
  busy_ = false;
  passed_over_ = false;  // unless it only probed, the peer sends everything from there on again
  ++qp_->counters_.rnr_naks_sent;
  if (busy_psn_ == expected_psn_) {
    ack_pending_ = false;
  }
  Aeth aeth{.syndrome = kSyndromeRnr, .msn = msn_};
  aeth.syndrome |= busy_timer_code_ & kSyndromeValueMask;
  return transmit_aeth(aeth, busy_psn_, turn);
}

std::uint32_t Responder::transmit_aeth(const Aeth& aeth, std::uint32_t psn, Turn& turn) {
  const Headers headers{.opcode = opcode_for(qp_->config_.type, Opcode::kRcAcknowledge),
                        .dest_qpn = qp_->attributes_.dest_qpn,
                        .psn = psn,
                        .aeth = aeth};
  return qp_->send_small(qp_->frame_template_, headers, {}, turn);
}

}  // namespace uroce
