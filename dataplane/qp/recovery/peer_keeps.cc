#include "dataplane/qp/recovery/peer_keeps.h"

namespace uroce {

// Decides what to do about `psn`, now that it is known to be missing still or again.
bool PeerKeeps::single(std::uint32_t psn) {
  if (belief_ == Belief::kNo && ++missing_ % kTryEvery != 0) {
    single_ = false;
    return false;
  }
  single_ = true;
  single_psn_ = psn;
  return true;
}

// The peer advanced by a single packet. A peer that keeps does that if the next packet was lost,
// too.
bool PeerKeeps::went_on_by_one(std::uint32_t psn, bool certain) {
  single_ = false;
  ++row_;
  if (belief_ == Belief::kYes && row_ < (told_ ? kRowMaxTold : kRowMax)) {
    return single(psn);
  }
  if (certain || belief_ == Belief::kYes || row_ >= kDoubtsMax) {
    belief_ = Belief::kNo;
    missing_ = 0;
  }
  return false;
}

bool PeerKeeps::resend_single(std::uint32_t psn) {
  const std::int32_t beyond = single_ ? psn_difference(psn, single_psn_) : 0;
  if (beyond == 1) {
    return went_on_by_one(psn, false);
  }
  if (beyond > 1) {
    jumped();
  }
  return single(psn);
}

PeerKeeps::Next PeerKeeps::acknowledged(std::uint32_t unacked_psn, bool more) {
  if (!single_ || psn_difference(unacked_psn, single_psn_) <= 0) {
    return Next::kGoOn;
  }
  single_ = false;
  if (unacked_psn != psn_add(single_psn_, 1)) {
    jumped();
    return Next::kGoOn;
  }
  if (!more) {
    return Next::kGoOn;
  }
  return went_on_by_one(unacked_psn, true) ? Next::kSingle : Next::kAll;
}

void PeerKeeps::told(bool keeps) {
  told_ = keeps;
  if (keeps) {
    jumped();
  }
}

void PeerKeeps::jumped() {
  belief_ = Belief::kYes;
  row_ = 0;
}

}  // namespace uroce
