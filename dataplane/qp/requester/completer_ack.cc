// Acknowledgements, and the steering of NAKs by syndrome (IBTA vol. 1, 9.7.5.2).

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

// An acknowledgement covers everything up to its PSN. If it passes a READ or an atomic whose
// response hasn't arrived, that response was lost: an implied NAK (C9-112).
Step Requester::on_acknowledge(const Packet& packet, Turn& turn, Drop* drop) {
  const std::uint8_t syndrome = packet.aeth().syndrome;
  const auto value = static_cast<std::uint8_t>(syndrome & kSyndromeValueMask);
  switch (syndrome & kSyndromeKindMask) {
    case 0:
      if (!acknowledge_before(psn_add(packet.psn, 1), turn)) {
        return answer_missing(packet, turn, drop);
      }
      on_ack_after_single_resend();
      return Step::kDone;
    case kSyndromeRnr:
      return on_rnr_nak(packet, value, turn, drop);
    case kSyndromeNak:
      return on_nak(packet, value, turn, drop);
    default:
      *drop = Drop::kReservedSyndrome;
      return Step::kDone;
  }
}

}  // namespace uroce
