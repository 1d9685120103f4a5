// The memory extensions of annex A19: ATOMIC WRITE and FLUSH. Both keep the order of reads and
// atomics, take one of their resources, and are answered by a READ response without data.

#include <cstring>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/limits.h"

namespace uroce {

Step Responder::atomic_write(const Packet& packet, Turn& turn) {
  if ((qp_->attributes_.access & kAccessRemoteWrite) == 0) {
    return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
  }
  if (resources_.full()) {
    return refuse(Nak::kInvalidRequest, Failure::kTooManyReads, turn);
  }
  const Reth reth = packet.reth();
  if (packet.payload_length != kAtomicBytes || reth.length != kAtomicBytes) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  const RemoteRange range{.rkey = reth.rkey, .address = reth.address, .length = kAtomicBytes};
  Access access = check_remote(memory(turn), range, kAccessRemoteWrite);
  if (access == Access::kGranted && reth.address % kAtomicBytes != 0) {
    return refuse(Nak::kInvalidRequest, Failure::kMisaligned, turn);
  }
  if (access == Access::kGranted) {
    std::uint64_t value = 0;  // in the byte order of the packet
    std::memcpy(&value, packet.payload, sizeof(value));
    access = store_remote(memory(turn), range, value);
  }
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  qp_->counters_.bytes_received += kAtomicBytes;
  const std::uint32_t psn = expected_psn_;
  advance_read(1);
  resources_.push(
      {.psn_first = psn, .packet_end = 1, .msn = msn_, .operation = Operation::kAtomicWrite});
  return Step::kDone;
}

// Persistence can take as long as the disk does: meanwhile the packet is parked.
Step Responder::flush_memory(const Packet& packet, Turn& turn) {
  const Feth feth = packet.feth();
  const bool known =
      feth.placement != 0 &&
      (feth.placement & ~(Feth::kPlaceGlobal | Feth::kPlacePersistent)) == 0 &&
      (feth.selectivity == Feth::kSelectRange || feth.selectivity == Feth::kSelectRegion);
  if (!known) {
    return refuse(Nak::kInvalidRequest, Failure::kFlushKind, turn);
  }
  const std::uint32_t rights =
      ((feth.placement & Feth::kPlaceGlobal) != 0 ? kAccessFlushGlobal : 0U) |
      ((feth.placement & Feth::kPlacePersistent) != 0 ? kAccessFlushPersistent : 0U);
  if ((qp_->attributes_.access & rights) != rights) {
    return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
  }
  if (resources_.full()) {
    return refuse(Nak::kInvalidRequest, Failure::kTooManyReads, turn);
  }
  const Reth reth = packet.reth();
  const Access access = flush_remote(
      memory(turn), {.rkey = reth.rkey, .address = reth.address, .length = reth.length},
      feth.selectivity == Feth::kSelectRegion, rights);
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  const std::uint32_t psn = expected_psn_;
  advance_read(1);
  resources_.push({.psn_first = psn, .packet_end = 1, .msn = msn_, .operation = Operation::kFlush});
  return Step::kDone;
}

}  // namespace uroce
