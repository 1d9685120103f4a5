// READ and atomics, and the answers to duplicate requests.

#include <algorithm>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

inline constexpr std::uint32_t kAtomicLength = 8;

std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) {
  return std::max(1U, (length + mtu - 1) / mtu);
}

}  // namespace

Step Responder::read(const Request& request, Turn& turn) {
  if ((qp_->attributes_.access & kAccessRemoteRead) == 0) {
    return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
  }
  if (resources_.full()) {
    return refuse(Nak::kInvalidRequest, Failure::kTooManyReads, turn);
  }
  const Reth reth = request.reth();
  if (reth.length > kMessageBytesMax) {
    return refuse(Nak::kInvalidRequest, Failure::kMessageTooLong, turn);
  }
  if (request.payload_length != 0) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  const Access access = check_remote(
      memory(turn), {.rkey = reth.rkey, .address = reth.address, .length = reth.length},
      kAccessRemoteRead);
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  const std::uint32_t packets = packets_of(reth.length, qp_->attributes_.path_mtu);
  const std::uint32_t psn = expected_psn_;
  advance_read(packets);
  resources_.push({.address = reth.address,
                   .rkey = reth.rkey,
                   .length = reth.length,
                   .length_end = reth.length,
                   .psn_first = psn,
                   .packets = packets,
                   .packet_end = packets,
                   .msn = msn_,
                   .pd = memory(turn).pd});
  return Step::kDone;
}

Step Responder::atomic(const Request& request, Turn& turn) {
  if ((qp_->attributes_.access & kAccessRemoteAtomic) == 0) {
    return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
  }
  if (resources_.full()) {
    return refuse(Nak::kInvalidRequest, Failure::kTooManyReads, turn);
  }
  if (request.payload_length != 0) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  const AtomicEth eth = request.atomic_eth();
  const RemoteRange range{.rkey = eth.rkey, .address = eth.address, .length = kAtomicLength};
  Access access = check_remote(memory(turn), range, kAccessRemoteAtomic);
  if (access == Access::kGranted && eth.address % kAtomicLength != 0) {
    return refuse(Nak::kInvalidRequest, Failure::kMisaligned, turn);
  }
  std::uint64_t original = 0;
  if (access == Access::kGranted) {
    access = request.info.operation == Operation::kCompareSwap
                 ? compare_swap_remote(memory(turn), range, eth.compare, eth.swap_add, &original)
                 : fetch_add_remote(memory(turn), range, eth.swap_add, &original);
  }
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  const std::uint32_t psn = expected_psn_;
  advance_read(1);
  resources_.push({.original = original,
                   .psn_first = psn,
                   .packet_end = 1,
                   .msn = msn_,
                   .operation = request.info.operation});
  return Step::kDone;
}

// 9.7.5.1. The memory range of a duplicate isn't used before it matches a request that was granted.
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
  const std::uint32_t skipped = (packet.psn - resource->psn_first) & kPsnMask;
  const std::uint32_t offset = skipped * mtu;
  if (reth.rkey != resource->rkey || reth.address != resource->address + offset ||
      reth.length > resource->length - offset || (reth.length == 0) != (resource->length == 0)) {
    return false;
  }
  resources_.replay(*resource, skipped, offset + reth.length,
                    skipped + packets_of(reth.length, mtu));
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
