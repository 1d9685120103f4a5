// How long messages take: what the requester tells the queue pair's histograms. All but
// look_at_ring() is called for the one message that is timed.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester.h"

namespace uroce {
namespace {

LatencyOf latency_of(abi::WrOpcode opcode) {
  using abi::WrOpcode;
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInv:
      return LatencyOf::kSend;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return LatencyOf::kWrite;
    case WrOpcode::kRdmaRead:
      return LatencyOf::kRead;
    case WrOpcode::kAtomicCmpAndSwp:
    case WrOpcode::kAtomicFetchAndAdd:
    case WrOpcode::kAtomicWrite:
      return LatencyOf::kAtomic;
    default:
      return LatencyOf::kOther;
  }
}

}  // namespace

// False: what the program says of its ring is nonsense.
bool Requester::look_at_ring(const Turn& turn) {
  const std::uint32_t known = queue_.posted();
  const bool sound = queue_.refresh();
  if (qp_.config_.measures_latency) {
    message_timer_.found(known, queue_.posted(), turn.now);
  }
  return sound;
}

void Requester::time_begun(const Turn& turn) {
  qp_.latencies_.add(LatencyOf::kQueued, message_timer_.taken(turn.now));
}

// The turn's time is enough, unless the message began and ended in one turn, as those without
// frames do.
void Requester::time_done(const SendEntry& entry, const Turn& turn) {
  Duration took = message_timer_.taken(turn.now);
  if (took == 0 && turn.clock != nullptr) {
    took = message_timer_.taken(turn.clock());
  }
  qp_.latencies_.add(latency_of(entry.opcode), took);
  message_timer_.stop();
}

void Requester::time_answered(Duration took) {
  if (qp_.config_.measures_latency) {
    qp_.latencies_.add(LatencyOf::kRoundTrip, took);
  }
}

}  // namespace uroce
