// READ and atomics.

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/limits.h"

namespace uroce {

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
  const Access access = check_remote(
      memory(turn), {.rkey = reth.rkey, .address = reth.address, .length = reth.length},
      kAccessRemoteRead);
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  const std::uint32_t packets = response_packets(reth.length, qp_->attributes_.path_mtu);
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
  const AtomicEth eth = request.atomic_eth();
  const RemoteRange range{.rkey = eth.rkey, .address = eth.address, .length = kAtomicBytes};
  Access access = check_remote(memory(turn), range, kAccessRemoteAtomic);
  if (access == Access::kGranted && eth.address % kAtomicBytes != 0) {
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

}  // namespace uroce
