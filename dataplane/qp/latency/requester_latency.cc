// Latency samples from the requester for the queue pair's histograms. All but refresh_ring() is
// called only for the one message that is timed.

#include <algorithm>

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {
namespace {

LatencyKind latency_of(abi::WrOpcode opcode) {
  using abi::WrOpcode;
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInv:
      return LatencyKind::kSend;
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return LatencyKind::kWrite;
    case WrOpcode::kRdmaRead:
      return LatencyKind::kRead;
    case WrOpcode::kAtomicCmpAndSwp:
    case WrOpcode::kAtomicFetchAndAdd:
    case WrOpcode::kAtomicWrite:
      return LatencyKind::kAtomic;
    default:
      return LatencyKind::kOther;
  }
}

}  // namespace

// False: the program's index is invalid.
bool Requester::refresh_ring(const Turn& turn) {
  const std::uint32_t known = queue_.posted();
  const bool sound = queue_.refresh();
  const std::uint32_t count = queue_.posted() - known;
  if (message_timer_.idle() && count != 0 && qp_.config_.measures_latency) {
    if (!turn.many_doorbells || !message_timer_.skip(count)) {
      message_timer_.found(known, queue_.posted(), queue_.stamp(), turn.now);
    } else if (message_timer_.times_next()) {
      request_stamp(turn);
    }
  }
  return sound;
}

// Once nothing is timed any more: requests the time of the next post. A program that sees what the
// worker publishes after this (a completion, the consumer index) sees the request, too.
void Requester::request_stamp(const Turn& turn) {
  if (qp_.config_.measures_latency) {
    queue_.request_stamp(message_timer_.next_stamp(turn.now));
  }
}

void Requester::time_begun(const Turn& turn) {
  message_timer_.begin(turn.now);
  qp_.latencies_.add(LatencyKind::kQueued, message_timer_.taken(turn.now));
}

// The turn's time is sufficient, unless the message begins and ends in one turn, as direct
// transfers do.
void Requester::time_done(const SendEntry& entry, const Turn& turn) {
  const bool at_once = message_timer_.begun() == turn.now && turn.clock != nullptr;
  const Time end = at_once ? std::max(turn.clock(), turn.now) : turn.now;
  qp_.latencies_.add(latency_of(entry.opcode), message_timer_.taken(end));
  message_timer_.stop();
  if (!turn.many_doorbells) {
    request_stamp(turn);
  }
}

void Requester::time_answered(Duration took) {
  if (qp_.config_.measures_latency) {
    qp_.latencies_.add(LatencyKind::kRoundTrip, took);
  }
}

}  // namespace uroce
