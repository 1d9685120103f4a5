// The bytes of a MAD to CM messages. The reader never reads beyond the end; the fields of a message
// are checked before they are used.

#include <algorithm>

#include "base/byte_stream.h"
#include "control/cm/mad.h"
#include "control/cm/mad_format.h"

namespace uroce::control::cm {
namespace {

// A field of `width` bits whose lowest one is bit `shift` of `byte`.
std::uint8_t bits_of(std::uint32_t byte, unsigned shift, unsigned width) {
  return static_cast<std::uint8_t>((byte >> shift) & ((1U << width) - 1));
}

PrivateData read_bytes(ByteReader& reader, std::size_t count) {
  const auto taken = reader.rest().first(std::min(count, reader.rest().size()));
  PrivateData data(taken.begin(), taken.end());
  reader.skip(count);
  return data;
}

ReqPath read_path(ByteReader& reader) {
  ReqPath path;
  path.local_lid = reader.u16();
  path.remote_lid = reader.u16();
  reader.read(path.local_gid.bytes);
  reader.read(path.remote_gid.bytes);
  const std::uint32_t flow_and_rate = reader.u32();
  path.flow_label = flow_and_rate >> 12U;
  path.packet_rate = flow_and_rate & 0x3FU;
  path.traffic_class = reader.u8();
  path.hop_limit = reader.u8();
  const std::uint8_t level = reader.u8();
  path.service_level = bits_of(level, 4, 4);
  path.subnet_local = bits_of(level, 3, 1) != 0;
  path.ack_timeout = bits_of(reader.u8(), 3, 5);
  return path;
}

Req read_req(ByteReader& reader) {
  Req req;
  req.local_id = reader.u32();
  reader.skip(1);
  req.ece.vendor_id = reader.u24();
  req.service_id = reader.u64();
  req.ca_guid = reader.u64();
  reader.skip(4);
  req.qkey = reader.u32();
  req.qpn = reader.u24();
  req.responder_resources = reader.u8();
  reader.skip(3);  // end-to-end context
  req.initiator_depth = reader.u8();
  reader.skip(3);  // remote end-to-end context
  const std::uint8_t timing = reader.u8();
  req.remote_response_timeout = bits_of(timing, 3, 5);
  req.transport = static_cast<Transport>(bits_of(timing, 1, 2));
  req.flow_control = bits_of(timing, 0, 1) != 0;
  req.starting_psn = reader.u24();
  const std::uint8_t retries = reader.u8();
  req.local_response_timeout = bits_of(retries, 3, 5);
  req.retry_count = bits_of(retries, 0, 3);
  req.pkey = reader.u16();
  const std::uint8_t mtu = reader.u8();
  req.path_mtu = bits_of(mtu, 4, 4);
  req.rdc_exists = bits_of(mtu, 3, 1) != 0;
  req.rnr_retry_count = bits_of(mtu, 0, 3);
  const std::uint8_t flags = reader.u8();
  req.max_cm_retries = bits_of(flags, 4, 4);
  req.srq = bits_of(flags, 3, 1) != 0;
  req.extended_transport = bits_of(flags, 0, 3);
  req.primary = read_path(reader);
  req.alternate = read_path(reader);
  req.private_data = read_bytes(reader, kReqPrivateMax);
  return req;
}

Mra read_mra(ByteReader& reader) {
  Mra mra;
  mra.local_id = reader.u32();
  mra.remote_id = reader.u32();
  mra.message = static_cast<MraMessage>(bits_of(reader.u8(), 6, 2));
  mra.service_timeout = bits_of(reader.u8(), 3, 5);
  mra.private_data = read_bytes(reader, kMraPrivateMax);
  return mra;
}

Rej read_rej(ByteReader& reader) {
  Rej rej;
  rej.local_id = reader.u32();
  rej.remote_id = reader.u32();
  rej.message = static_cast<RejMessage>(bits_of(reader.u8(), 6, 2));
  const std::size_t length = bits_of(reader.u8(), 1, 7);
  rej.reason = static_cast<RejectReason>(reader.u16());
  rej.info = read_bytes(reader, kRejInfoMax);
  rej.info.resize(std::min(length, kRejInfoMax));
  rej.private_data = read_bytes(reader, kRejPrivateMax);
  return rej;
}

Rep read_rep(ByteReader& reader) {
  Rep rep;
  rep.local_id = reader.u32();
  rep.remote_id = reader.u32();
  rep.qkey = reader.u32();
  rep.qpn = reader.u24();
  rep.ece.vendor_id = std::uint32_t{reader.u8()} << 16U;
  rep.eecn = reader.u24();
  rep.ece.vendor_id |= std::uint32_t{reader.u8()} << 8U;
  rep.starting_psn = reader.u24();
  rep.ece.vendor_id |= reader.u8();
  rep.responder_resources = reader.u8();
  rep.initiator_depth = reader.u8();
  const std::uint8_t delay = reader.u8();
  rep.target_ack_delay = bits_of(delay, 3, 5);
  rep.failover_accepted = bits_of(delay, 1, 2);
  rep.flow_control = bits_of(delay, 0, 1) != 0;
  const std::uint8_t flags = reader.u8();
  rep.rnr_retry_count = bits_of(flags, 5, 3);
  rep.srq = bits_of(flags, 4, 1) != 0;
  rep.ca_guid = reader.u64();
  rep.private_data = read_bytes(reader, kRepPrivateMax);
  return rep;
}

Dreq read_dreq(ByteReader& reader) {
  Dreq dreq;
  dreq.local_id = reader.u32();
  dreq.remote_id = reader.u32();
  dreq.remote_qpn = reader.u24();
  reader.skip(1);
  dreq.private_data = read_bytes(reader, kDreqPrivateMax);
  return dreq;
}

// RTU and DREP: both ids and private data of the same length.
template <typename Both>
Both read_ids(ByteReader& reader) {
  static_assert(kRtuPrivateMax == kDrepPrivateMax);
  Both message;
  message.local_id = reader.u32();
  message.remote_id = reader.u32();
  message.private_data = read_bytes(reader, kRtuPrivateMax);
  return message;
}

Lap read_lap(ByteReader& reader) {
  Lap lap;
  lap.local_id = reader.u32();
  lap.remote_id = reader.u32();
  return lap;
}

Apr read_apr(ByteReader& reader) {
  Apr apr;
  apr.local_id = reader.u32();
  apr.remote_id = reader.u32();
  reader.skip(1);
  apr.status = reader.u8();
  reader.skip(2 + kRejInfoMax);
  apr.private_data = read_bytes(reader, kAprPrivateMax);
  return apr;
}

SidrReq read_sidr_req(ByteReader& reader) {
  SidrReq request;
  request.request_id = reader.u32();
  request.pkey = reader.u16();
  reader.skip(2);
  request.service_id = reader.u64();
  request.private_data = read_bytes(reader, kSidrReqPrivateMax);
  return request;
}

SidrRep read_sidr_rep(ByteReader& reader) {
  SidrRep reply;
  reply.request_id = reader.u32();
  reply.status = static_cast<SidrStatus>(reader.u8());
  reader.skip(3);
  reply.qpn = reader.u24();
  reader.skip(1);
  reply.service_id = reader.u64();
  reply.qkey = reader.u32();
  reader.skip(kRejInfoMax);
  reply.private_data = read_bytes(reader, kSidrRepPrivateMax);
  return reply;
}

std::optional<Message> read_message(std::uint16_t attribute, ByteReader& reader) {
  switch (static_cast<Attribute>(attribute)) {
    case Attribute::kReq:
      return read_req(reader);
    case Attribute::kMra:
      return read_mra(reader);
    case Attribute::kRej:
      return read_rej(reader);
    case Attribute::kRep:
      return read_rep(reader);
    case Attribute::kRtu:
      return read_ids<Rtu>(reader);
    case Attribute::kDreq:
      return read_dreq(reader);
    case Attribute::kDrep:
      return read_ids<Drep>(reader);
    case Attribute::kSidrReq:
      return read_sidr_req(reader);
    case Attribute::kSidrRep:
      return read_sidr_rep(reader);
    case Attribute::kLap:
      return read_lap(reader);
    case Attribute::kApr:
      return read_apr(reader);
  }
  return std::nullopt;
}

// Zero isn't a valid number: communication ids and queue pairs of connections start at 1. It is
// sent only by a side that doesn't know the other's id (a REJ of a REQ).
bool has_numbers(const Message& message) {
  if (const auto* req = std::get_if<Req>(&message)) {
    return req->local_id != 0 && req->qpn != 0;
  }
  if (const auto* rep = std::get_if<Rep>(&message)) {
    return rep->local_id != 0 && rep->remote_id != 0 && (rep->qpn != 0 || rep->eecn != 0);
  }
  return true;
}

}  // namespace

std::optional<Envelope> parse_mad(std::span<const std::byte> bytes, MadFault* fault) {
  if (bytes.size() != kMadBytes) {
    *fault = MadFault::kLength;
    return std::nullopt;
  }
  ByteReader reader(bytes);
  const bool header_right = reader.u8() == kBaseVersion;
  const bool class_right = reader.u8() == kManagementClass;
  const bool version_right = reader.u8() == kClassVersion;
  const bool method_right = reader.u8() == kMethodSend;
  if (!header_right || !class_right || !version_right || !method_right) {
    *fault = MadFault::kHeader;
    return std::nullopt;
  }
  reader.skip(4);  // status and class-specific field: reserved in this class
  Envelope envelope;
  envelope.transaction = reader.u64();
  const std::uint16_t attribute = reader.u16();
  reader.skip(2);
  const std::uint32_t modifier = reader.u32();
  auto message = read_message(attribute, reader);
  if (!message) {
    *fault = MadFault::kAttribute;
    return std::nullopt;
  }
  if (!has_numbers(*message)) {
    *fault = MadFault::kField;
    return std::nullopt;
  }
  if (Req* req = std::get_if<Req>(&*message); req != nullptr) {
    req->ece.options = modifier;
  } else if (Rep* rep = std::get_if<Rep>(&*message); rep != nullptr) {
    rep->ece.options = modifier;
  }
  envelope.message = std::move(*message);
  *fault = MadFault::kNone;
  return envelope;
}

}  // namespace uroce::control::cm
