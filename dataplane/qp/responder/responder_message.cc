// SEND and WRITE, one packet at a time, or several packets of a direct transfer.

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

// 9.7.4.1: FIRST and MIDDLE fill the MTU, LAST has 1 byte to the MTU, ONLY none to the MTU.
bool payload_fits_mtu(const Request& request, std::uint32_t mtu) {
  const std::uint64_t length = request.payload_length;
  const std::uint64_t before_last = std::uint64_t{request.packets - 1} * mtu;
  if (!request.info.last) {
    return length == before_last + mtu;
  }
  const bool only = request.info.first && request.packets == 1;
  return length <= before_last + mtu && (only || length > before_last);
}

// Calls store(bytes, length, done) for each run of the payload; `done`: its offset in the payload.
template <typename Store>
Access store_payload(const Request& request, Store&& store) {
  std::uint32_t done = 0;
  for (const ByteRun& run : request.payload()) {
    const Access access = store(run.start, run.length, done);
    if (access != Access::kGranted) {
      return access;
    }
    done += run.length;
  }
  return Access::kGranted;
}

}  // namespace

Step Responder::send(const Request& request, Turn& turn) {
  const OpcodeInfo& info = request.info;
  if (info.first) {
    offset_ = 0;
    bool held = false;
    const Step step = hold_receive(turn, &held);
    if (!held) {
      return step;
    }
  }
  if (!payload_fits_mtu(request, qp_->attributes_.path_mtu)) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  if (request.payload_length > kMessageBytesMax - offset_) {
    return refuse(Nak::kInvalidRequest, Failure::kMessageTooLong, turn);
  }
  if (request.payload_length > receive_length_ - offset_) {
    return refuse_receive(abi::WcStatus::kLocLenErr, Nak::kInvalidRequest,
                          Failure::kReceiveTooShort, turn);
  }
  const MemoryScope scope = memory(turn);
  const std::span sges(receive_.sges.data(), receive_.sge_count);
  const Access access =
      store_payload(request, [&](const std::byte* bytes, std::uint32_t length, std::uint32_t done) {
        return scatter(scope, sges, std::uint64_t{offset_} + done, bytes, length, !info.last);
      });
  if (access != Access::kGranted) {
    return refuse_local(access, turn);
  }
  offset_ += request.payload_length;
  qp_->counters_.bytes_received += request.payload_length;
  message_ = info.last ? Message::kNone : Message::kSend;
  advance(request);
  if (info.last) {
    if (info.has(Extension::kIeth) && turn.keys.invalidate(request.invalidate_rkey(), scope.user(),
                                                           true) != WindowChange::kDone) {
      return invalidate_failed(turn);
    }
    complete_receive(request, turn);
  }
  return Step::kDone;
}

[[gnu::always_inline]] inline Step Responder::store(const Request& request, Turn& turn) {
  const OpcodeInfo& info = request.info;
  const MemoryScope scope = memory(turn);
  Access access = Access::kGranted;
  if (info.first && (!info.last || request.payload().size() > 1)) {
    // The whole range is checked when the message starts, before any byte of it is stored; later
    // packets look the key up again, because the region may be removed meanwhile.
    access = check_remote(scope,
                          {.rkey = write_rkey_, .address = write_address_, .length = write_length_},
                          kAccessRemoteWrite);
  }
  if (access == Access::kGranted) {
    access = store_payload(request,
                           [&](const std::byte* bytes, std::uint32_t length, std::uint32_t done) {
                             const std::uint32_t at = offset_ + done;
                             return write_remote(scope,
                                                 {.rkey = write_rkey_,
                                                  .address = write_address_ + at,
                                                  .length = length,
                                                  .ahead = write_length_ - at - length},
                                                 bytes);
                           });
  }
  if (access != Access::kGranted) {
    return refuse_remote(access, turn);
  }
  offset_ += request.payload_length;
  qp_->counters_.bytes_received += request.payload_length;
  message_ = info.last ? Message::kNone : Message::kWrite;
  advance(request);
  if (info.has(Extension::kImmediate)) {
    complete_receive(request, turn);
  }
  return Step::kDone;
}

[[gnu::flatten]] Step Responder::write(const Request& request, Turn& turn) {
  const OpcodeInfo& info = request.info;
  if (info.first) {
    if ((qp_->attributes_.access & kAccessRemoteWrite) == 0) {
      return refuse(Nak::kInvalidRequest, Failure::kNotEnabled, turn);
    }
    const Reth reth = request.reth();
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
  if (write_length_ > kMessageBytesMax) {
    return refuse(Nak::kInvalidRequest, Failure::kMessageTooLong, turn);
  }
  // 9.7.4.1: the payloads add up to the length that the first packet announced.
  const std::uint32_t rest = write_length_ - offset_;
  const bool fits_message =
      info.last ? request.payload_length == rest : request.payload_length < rest;
  if (!fits_message || !payload_fits_mtu(request, qp_->attributes_.path_mtu)) {
    return refuse(Nak::kInvalidRequest, Failure::kPacketLength, turn);
  }
  return store(request, turn);
}

}  // namespace uroce
