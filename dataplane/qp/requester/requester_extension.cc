// The requests of annex A19: one packet each, answered by a READ response without data.

#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"

namespace uroce {

std::uint32_t Requester::send_atomic_write(const SendEntry& entry, Turn& turn) {
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  const Headers headers{
      .opcode = Opcode::kRcAtomicWrite,
      .ack_request = true,
      .dest_qpn = qp_.attributes_.dest_qpn,
      .psn = cursor_psn_,
      .reth = {.address = entry.remote_address, .rkey = entry.rkey, .length = entry.length}};
  FrameWriter writer(*frame, qp_.frame_template_, headers, entry.length, qp_.ip_id_++);
  return send_payload(entry, {.offset = 0, .length = entry.length, .ack_request = true}, *frame,
                      writer, turn);
}

std::uint32_t Requester::send_flush(const SendEntry& entry, Turn& turn) {
  const Headers headers{
      .opcode = Opcode::kRcFlush,
      .ack_request = true,
      .dest_qpn = qp_.attributes_.dest_qpn,
      .psn = cursor_psn_,
      .reth = {.address = entry.remote_address,
               .rkey = entry.rkey,
               .length = static_cast<std::uint32_t>(entry.flush.length)},
      .feth = {.placement = static_cast<std::uint8_t>(entry.flush.placement),
               .selectivity = static_cast<std::uint8_t>(entry.flush.selectivity)}};
  return send_bare_request(entry, headers, 1, turn);
}

}  // namespace uroce
