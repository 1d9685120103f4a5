// Requests that come again, because the peer missed their acknowledgement or answer, or the network
// copied them: none is executed again (IBTA vol. 1, 9.7.5.1).

#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"

namespace uroce {

// The memory range of a duplicate isn't used before it matches a request that was granted.
Drop Responder::duplicate(const Packet& packet, const Turn& turn) {
  ++qp_->counters_.duplicate_request;
  if (answer_parked_ && !asks_for_rest(packet)) {
    busy(packet.psn, turn);
  }
  switch (opcode_info(packet.opcode).operation) {
    case Operation::kReadRequest:
      return replay_read(packet) ? Drop::kNone : Drop::kForgottenDuplicate;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
    case Operation::kAtomicWrite:
    case Operation::kFlush:
      return replay_atomic(packet) ? Drop::kNone : Drop::kForgottenDuplicate;
    default:
      // Not executed again; acknowledged, whether requested or not.
      ack_pending_ = true;
      return Drop::kNone;
  }
}

// A READ from the middle of an earlier response. Linux's requester then accepts nothing but the
// rest of the response, not even an RNR NAK.
bool Responder::asks_for_rest(const Packet& packet) {
  const Resource* const resource = resources_.find(packet.psn);
  return resource != nullptr && packet.psn != resource->psn_first;
}

// A requester that lost part of a response asks again from the first missing PSN, with the address
// advanced and the length reduced to the rest. The response continues as the original did: MIDDLE
// to LAST, or LAST alone, without a FIRST. The specification requires the same PSNs and payload as
// before and leaves it at that, so responders differ: Linux's rxe does as we do, qib and hfi1 begin
// again with FIRST or ONLY. Every requester whose code is known accepts a continuation: rxe in all
// versions (FIRST and ONLY at the PSN that it asked from, too, but only since Linux 4.18), qib and
// hfi1 in either form. What a ConnectX accepts isn't known; rxe, which its maker wrote, sends it
// the same.
bool Responder::replay_read(const Packet& packet) {
  Resource* resource = resources_.find(packet.psn);
  if (resource == nullptr || resource->operation != Operation::kReadRequest) {
    return false;
  }
  const Reth reth = packet.reth();
  const std::uint32_t mtu = qp_->attributes_.path_mtu;
  const std::uint32_t skipped = psn_distance(resource->psn_first, packet.psn);
  const std::uint32_t offset = skipped * mtu;
  if (reth.rkey != resource->rkey || reth.address != resource->address + offset ||
      reth.length > resource->length - offset || (reth.length == 0) != (resource->length == 0)) {
    return false;
  }
  resources_.replay(*resource, skipped, offset + reth.length,
                    skipped + response_packets(reth.length, mtu));
  return true;
}

// The saved result, never a second execution.
bool Responder::replay_atomic(const Packet& packet) {
  Resource* resource = resources_.find(packet.psn);
  if (resource == nullptr || resource->operation != opcode_info(packet.opcode).operation) {
    return false;
  }
  resources_.replay(*resource, 0, 0, 1);
  return true;
}

}  // namespace uroce
