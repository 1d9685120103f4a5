#include "dataplane/qp/recovery/peer_buffering.h"

namespace uroce {

// Decides what to do about `psn`, now that it is known to be missing still or again.
bool PeerBuffering::single(std::uint32_t psn, std::uint32_t count) {
  if (buffers_ == Buffers::kNo && ++missing_ % kTryEvery != 0) {
    single_ = false;
    return false;
  }
  single_ = true;
  single_end_ = psn_add(psn, count);
  return true;
}

// The peer advanced by a single packet. A peer that buffers does that if the next packet was lost,
// too.
bool PeerBuffering::advanced_by_one(std::uint32_t psn, std::uint32_t count, bool certain) {
  single_ = false;
  ++row_;
  if (buffers_ == Buffers::kYes && row_ < (reported_ ? kRowMaxReported : kRowMax)) {
    return single(psn, count);
  }
  if (certain || buffers_ == Buffers::kYes || row_ >= kDoubtsMax) {
    buffers_ = Buffers::kNo;
    missing_ = 0;
  }
  return false;
}

bool PeerBuffering::resend_single(std::uint32_t psn, std::uint32_t count) {
  const std::int32_t beyond = single_ ? psn_difference(psn, single_end_) : -1;
  if (beyond == 0) {
    return advanced_by_one(psn, count, false);
  }
  if (beyond > 0) {
    advanced_further();
  }
  return single(psn, count);
}

PeerBuffering::Next PeerBuffering::acknowledged(std::uint32_t unacked_psn, std::uint32_t count) {
  const std::int32_t beyond = single_ ? psn_difference(unacked_psn, single_end_) : -1;
  if (beyond < 0) {
    return Next::kGoOn;
  }
  single_ = false;
  if (beyond > 0) {
    advanced_further();
    return Next::kGoOn;
  }
  if (count == 0) {
    return Next::kGoOn;
  }
  return advanced_by_one(unacked_psn, count, true) ? Next::kSingle : Next::kAll;
}

void PeerBuffering::set_reported(bool buffers) {
  reported_ = buffers;
  if (buffers) {
    advanced_further();
  }
}

void PeerBuffering::advanced_further() {
  buffers_ = Buffers::kYes;
  row_ = 0;
}

}  // namespace uroce
