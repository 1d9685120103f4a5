// The differences for unacknowledged transports (UC and UD, IBTA vol. 1, 9.8): a message completes
// when its last packet is sent, and a work request that can't be sent stops the send queue, not the
// queue pair.

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

constexpr std::uint32_t kOwnQkey = 0x8000'0000;  // in a work request: the queue pair's own is meant

}  // namespace

// A request completes when it is sent.
void Requester::retire_sent(Turn& turn) {
  unacked_psn_ = cursor_psn_;
  if (queue_.tail() != cursor_index_) {
    retire_oldest(turn);
    fail_refused(turn);
    announce_drained(turn);
  }
}

// The address handle may be any number, also one of another protection domain.
std::uint32_t Requester::send_datagram(const SendEntry& entry, Turn& turn) {
  const auto& to = entry.datagram;
  const AddressTable* addresses = qp_.config_.addresses;
  const AddressVector* address = addresses == nullptr ? nullptr : addresses->find(to.ah);
  if (address == nullptr || address->pd != qp_.config_.pd) {
    return refuse_begun(abi::WcStatus::kLocQpOpErr, Failure::kSendAddress, turn);
  }
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  const Headers headers{
      .opcode = entry.opcode == abi::WrOpcode::kSend ? Opcode::kUdSendOnly : Opcode::kUdSendOnlyImm,
      .solicited = entry.has(abi::kSolicited),
      .dest_qpn = to.qpn & kQpnMask,
      .psn = cursor_psn_,
      .immediate = entry.immediate,
      // 9.6.1.4.2 and 10.2.4.1: a controlled Q_Key, which programs may not choose.
      .deth = {.qkey = (to.qkey & kOwnQkey) != 0 ? qp_.attributes_.qkey : to.qkey,
               .source_qpn = qp_.config_.qpn},
  };
  FrameWriter writer(*frame, address->frame, headers, entry.length, qp_.ip_id_++);
  return send_payload(entry, {.offset = 0, .length = entry.length, .ack_request = true}, *frame,
                      writer, turn);
}

}  // namespace uroce
