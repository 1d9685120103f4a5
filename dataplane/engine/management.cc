// QP1: management datagrams belong to control. Invalid ones are detected here, where drops are
// counted; valid ones are passed on like frames that aren't RoCE.

#include "dataplane/engine/worker_state.h"

namespace uroce {
namespace {

constexpr std::uint16_t kPkeyBase = 0x7FFF;  // the low 15 bits decide (IBTA vol. 1, 10.9.3)

// IBTA vol. 1, 9.6.1.4 and 13.5.3.
Drop check_mad(const Packet& packet) {
  if (packet.opcode != Opcode::kUdSendOnly) {
    return Drop::kWrongQpType;
  }
  if ((packet.pkey & kPkeyBase) != kPkeyBase) {
    return Drop::kBadPkey;
  }
  if (packet.deth().qkey != kGsiQkey) {
    return Drop::kBadQkey;
  }
  return packet.payload_length == kMadLength ? Drop::kNone : Drop::kBadMadLength;
}

}  // namespace

void Worker::State::take_mad(Frame* frame) {
  const Drop reason = check_mad(frame->packet);
  if (reason != Drop::kNone) {
    return drop(frame, reason);
  }
  mads.push_back(frame);
}

// After programs were notified of earlier events: once woken, control may be faster than this
// worker, and a program that learns of the disconnection first considers the rest lost.
void Worker::State::deliver_mads() {
  for (Frame* frame : mads) {
    gather(*frame);
    if (config.frames != nullptr &&
        !config.frames->take_mad(frame->port, {frame->data, frame->length},
                                 frame->packet.source_gid())) {
      drop(frame, Drop::kControlFull);
    } else {
      release(frame);
    }
  }
  mads.clear();
}

}  // namespace uroce
