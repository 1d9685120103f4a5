#include "dataplane/qp/recovery/peer_keeps.h"

namespace uroce {

// Decides what to do about `psn`, now that it is known to be missing still or again.
bool PeerKeeps::single(std::uint32_t psn) {
  if (buffers_ == Buffers::kNo && ++missing_ % kTryEvery != 0) {
    single_ = false;
    return false;
  }
  single_ = true;
  single_psn_ = psn;
  return true;
}

// The peer advanced by a single packet. A peer that keeps does that if the next packet was lost,
// too.
bool PeerKeeps::advanced_by_one(std::uint32_t psn, bool certain) {
  single_ = false;
  ++row_;
  if (buffers_ == Buffers::kYes && row_ < (reported_ ? kRowMaxReported : kRowMax)) {
    return single(psn);
  }
  if (certain || buffers_ == Buffers::kYes || row_ >= kDoubtsMax) {
    buffers_ = Buffers::kNo;
    missing_ = 0;
  }
  return false;
}

bool PeerKeeps::resend_single(std::uint32_t psn) {
  const std::int32_t beyond = single_ ? psn_difference(psn, single_psn_) : 0;
  if (beyond == 1) {
    return advanced_by_one(psn, false);
  }
  if (beyond > 1) {
    advanced_further();
  }
  return single(psn);
}

PeerKeeps::Next PeerKeeps::acknowledged(std::uint32_t unacked_psn, bool more) {
  if (!single_ || psn_difference(unacked_psn, single_psn_) <= 0) {
    return Next::kGoOn;
  }
  single_ = false;
  if (unacked_psn != psn_add(single_psn_, 1)) {
    advanced_further();
    return Next::kGoOn;
  }
  if (!more) {
    return Next::kGoOn;
  }
  return advanced_by_one(unacked_psn, true) ? Next::kSingle : Next::kAll;
}

void PeerKeeps::set_reported(bool keeps) {
  reported_ = keeps;
  if (keeps) {
    advanced_further();
  }
}

void PeerKeeps::advanced_further() {
  buffers_ = Buffers::kYes;
  row_ = 0;
}

}  // namespace uroce
