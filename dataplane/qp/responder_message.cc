// SEND and WRITE, one packet at a time.

#include "dataplane/qp/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder.h"

namespace uroce {
namespace {

inline constexpr std::uint32_t kMessageLengthMax = 1U << 31U;

// 9.7.4.1: FIRST and MIDDLE fill the MTU, LAST has 1 byte to the MTU, ONLY none to the MTU.
bool payload_fits_mtu(const Packet& packet, const OpcodeInfo& info, std::uint32_t mtu) {
  if (!info.last) {
    return packet.payload_length == mtu;
  }
  return packet.payload_length <= mtu && (info.first || packet.payload_length != 0);
}

}  // namespace

Step Responder::send(const Packet& packet, const OpcodeInfo& info, Turn& turn) {
  if (info.first) {
    offset_ = 0;
    bool held = false;
    const Step step = hold_receive(turn, &held);
    if (!held) {
      return step;
    }
  }
  if (!payload_fits_mtu(packet, info, qp_->attributes_.path_mtu)) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  if (packet.payload_length > kMessageLengthMax - offset_) {
    return refuse(Nak::kInvalidRequest, Failure::kMessageTooLong, turn);
  }
  if (packet.payload_length > receive_length_ - offset_) {
    return refuse_receive(abi::WcStatus::kLocLenErr, Nak::kInvalidRequest,
                          Failure::kReceiveTooShort, turn);
  }
  const Access access = scatter(memory(turn), std::span(receive_.sges.data(), receive_.sge_count),
                                offset_, packet.payload, packet.payload_length, !info.last);
  if (access != Access::kGranted) {
    return refuse_local(access, turn);
  }
  offset_ += packet.payload_length;
  qp_->counters_.bytes_received += packet.payload_length;
  message_ = info.last ? Message::kNone : Message::kSend;
  advance(packet, info.last);
  if (info.last) {
    if (info.has(Extension::kIeth) &&
        turn.keys.invalidate(packet.invalidate_rkey(), memory(turn).user(), true) !=
            WindowChange::kDone) {
      return invalidate_failed(turn);
    }
    complete_receive(packet, info, turn);
  }
  return Step::kDone;
}

Step Responder::write(const Packet& packet, const OpcodeInfo& info, Turn& turn) {
  if (info.first) {
    if ((qp_->attributes_.access & kAccessRemoteWrite) == 0) {
      return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
    }
    const Reth reth = packet.reth();
    offset_ = 0;
    write_address_ = reth.address;
    write_rkey_ = reth.rkey;
    write_length_ = reth.length;
  }
  if (info.has(Extension::kImmediate)) {
    bool held = false;
    const Step step = hold_receive(turn, &held);
    if (!held) {
      return step;
    }
  }
  if (write_length_ > kMessageLengthMax) {
    return refuse(Nak::kInvalidRequest, Failure::kMessageTooLong, turn);
  }
  // 9.7.4.1: the payloads add up to the length that the first packet announced.
  const std::uint32_t rest = write_length_ - offset_;
  const bool fits_message =
      info.last ? packet.payload_length == rest : packet.payload_length < rest;
  if (!fits_message || !payload_fits_mtu(packet, info, qp_->attributes_.path_mtu)) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  return store(packet, info, turn);
}

Step Responder::store(const Packet& packet, const OpcodeInfo& info, Turn& turn) {
  const MemoryScope scope = memory(turn);
  Access access = Access::kGranted;
  if (info.first && !info.last) {
    // The whole range is judged when the message starts; later packets look the key up
    // again, because the region may go meanwhile.
    access = check_remote(scope,
                          {.rkey = write_rkey_, .address = write_address_, .length = write_length_},
                          kAccessRemoteWrite);
  }
  if (access == Access::kGranted) {
    access = write_remote(scope,
                          {.rkey = write_rkey_,
                           .address = write_address_ + offset_,
                           .length = packet.payload_length,
                           .ahead = write_length_ - offset_ - packet.payload_length},
                          packet.payload);
  }
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  offset_ += packet.payload_length;
  qp_->counters_.bytes_received += packet.payload_length;
  message_ = info.last ? Message::kNone : Message::kWrite;
  advance(packet, info.last);
  if (info.has(Extension::kImmediate)) {
    complete_receive(packet, info, turn);
  }
  return Step::kDone;
}

}  // namespace uroce
