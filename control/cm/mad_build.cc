// CM messages to the bytes of a MAD.

#include <algorithm>

#include "base/byte_stream.h"
#include "base/check.h"
#include "control/cm/mad.h"
#include "control/cm/mad_format.h"

namespace uroce::control::cm {
namespace {

constexpr std::uint32_t kInfoLengthShift = 1;

void write_zeroes(ByteWriter& writer, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    writer.u8(0);
  }
}

void write_bytes(ByteWriter& writer, const PrivateData& data, std::size_t length) {
  UROCE_CHECK(data.size() <= length);
  writer.write(data);
  write_zeroes(writer, length - data.size());
}

// `value` at bit `shift` of a byte, cut to `width` bits.
std::uint32_t bits(std::uint32_t value, unsigned shift, unsigned width) {
  return (value & ((1U << width) - 1)) << shift;
}

template <typename Enumeration>
std::uint32_t number(Enumeration value) {
  return static_cast<std::uint32_t>(value);
}

void write_path(ByteWriter& writer, const ReqPath& path) {
  writer.u16(path.local_lid);
  writer.u16(path.remote_lid);
  writer.write(path.local_gid.bytes);
  writer.write(path.remote_gid.bytes);
  writer.u32(path.flow_label << 12U | bits(path.packet_rate, 0, 6));
  writer.u8(path.traffic_class);
  writer.u8(path.hop_limit);
  writer.u8(bits(path.service_level, 4, 4) | bits(path.subnet_local ? 1 : 0, 3, 1));
  writer.u8(bits(path.ack_timeout, 3, 5));
}

Attribute write(ByteWriter& writer, const Req& req) {
  writer.u32(req.local_id);
  writer.u8(0);
  writer.u24(req.ece.vendor_id);
  writer.u64(req.service_id);
  writer.u64(req.ca_guid);
  writer.u32(0);
  writer.u32(req.qkey);
  writer.u24(req.qpn);
  writer.u8(req.responder_resources);
  writer.u24(0);  // end-to-end context
  writer.u8(req.initiator_depth);
  writer.u24(0);  // remote end-to-end context
  writer.u8(bits(req.remote_response_timeout, 3, 5) | bits(number(req.transport), 1, 2) |
            bits(req.flow_control ? 1 : 0, 0, 1));
  writer.u24(req.starting_psn);
  writer.u8(bits(req.local_response_timeout, 3, 5) | bits(req.retry_count, 0, 3));
  writer.u16(req.pkey);
  writer.u8(bits(req.path_mtu, 4, 4) | bits(req.rdc_exists ? 1 : 0, 3, 1) |
            bits(req.rnr_retry_count, 0, 3));
  writer.u8(bits(req.max_cm_retries, 4, 4) | bits(req.srq ? 1 : 0, 3, 1) |
            bits(req.extended_transport, 0, 3));
  write_path(writer, req.primary);
  write_path(writer, req.alternate);
  write_bytes(writer, req.private_data, kReqPrivateMax);
  return Attribute::kReq;
}

Attribute write(ByteWriter& writer, const Mra& mra) {
  writer.u32(mra.local_id);
  writer.u32(mra.remote_id);
  writer.u8(bits(number(mra.message), 6, 2));
  writer.u8(bits(mra.service_timeout, 3, 5));
  write_bytes(writer, mra.private_data, kMraPrivateMax);
  return Attribute::kMra;
}

Attribute write(ByteWriter& writer, const Rej& rej) {
  writer.u32(rej.local_id);
  writer.u32(rej.remote_id);
  writer.u8(bits(number(rej.message), 6, 2));
  writer.u8(static_cast<std::uint32_t>(rej.info.size()) << kInfoLengthShift);
  writer.u16(number(rej.reason));
  write_bytes(writer, rej.info, kRejInfoMax);
  write_bytes(writer, rej.private_data, kRejPrivateMax);
  return Attribute::kRej;
}

Attribute write(ByteWriter& writer, const Rep& rep) {
  writer.u32(rep.local_id);
  writer.u32(rep.remote_id);
  writer.u32(rep.qkey);
  writer.u24(rep.qpn);
  writer.u8(bits(rep.ece.vendor_id, 0, 24) >> 16U);
  writer.u24(rep.eecn);
  writer.u8(bits(rep.ece.vendor_id >> 8U, 0, 8));
  writer.u24(rep.starting_psn);
  writer.u8(bits(rep.ece.vendor_id, 0, 8));
  writer.u8(rep.responder_resources);
  writer.u8(rep.initiator_depth);
  writer.u8(bits(rep.target_ack_delay, 3, 5) | bits(rep.failover_accepted, 1, 2) |
            bits(rep.flow_control ? 1 : 0, 0, 1));
  writer.u8(bits(rep.rnr_retry_count, 5, 3) | bits(rep.srq ? 1 : 0, 4, 1));
  writer.u64(rep.ca_guid);
  write_bytes(writer, rep.private_data, kRepPrivateMax);
  return Attribute::kRep;
}

Attribute write(ByteWriter& writer, const Rtu& rtu) {
  writer.u32(rtu.local_id);
  writer.u32(rtu.remote_id);
  write_bytes(writer, rtu.private_data, kRtuPrivateMax);
  return Attribute::kRtu;
}

Attribute write(ByteWriter& writer, const Dreq& dreq) {
  writer.u32(dreq.local_id);
  writer.u32(dreq.remote_id);
  writer.u24(dreq.remote_qpn);
  writer.u8(0);
  write_bytes(writer, dreq.private_data, kDreqPrivateMax);
  return Attribute::kDreq;
}

Attribute write(ByteWriter& writer, const Drep& drep) {
  writer.u32(drep.local_id);
  writer.u32(drep.remote_id);
  write_bytes(writer, drep.private_data, kDrepPrivateMax);
  return Attribute::kDrep;
}

// We never request an alternate path. The simulation and the tests do, with an empty one.
Attribute write(ByteWriter& writer, const Lap& lap) {
  writer.u32(lap.local_id);
  writer.u32(lap.remote_id);
  return Attribute::kLap;
}

Attribute write(ByteWriter& writer, const Apr& apr) {
  writer.u32(apr.local_id);
  writer.u32(apr.remote_id);
  writer.u8(0);  // no additional information
  writer.u8(apr.status);
  write_zeroes(writer, 2 + kRejInfoMax);
  write_bytes(writer, apr.private_data, kAprPrivateMax);
  return Attribute::kApr;
}

Attribute write(ByteWriter& writer, const SidrReq& request) {
  writer.u32(request.request_id);
  writer.u16(request.pkey);
  writer.u16(0);
  writer.u64(request.service_id);
  write_bytes(writer, request.private_data, kSidrReqPrivateMax);
  return Attribute::kSidrReq;
}

Attribute write(ByteWriter& writer, const SidrRep& reply) {
  writer.u32(reply.request_id);
  writer.u8(number(reply.status));
  writer.u24(0);  // no additional information
  writer.u24(reply.qpn);
  writer.u8(0);
  writer.u64(reply.service_id);
  writer.u32(reply.qkey);
  write_zeroes(writer, kRejInfoMax);
  write_bytes(writer, reply.private_data, kSidrRepPrivateMax);
  return Attribute::kSidrRep;
}

// The fields of the MAD's header outside of the message.
std::uint32_t attribute_modifier(const Message& message) {
  if (const Req* req = std::get_if<Req>(&message); req != nullptr) {
    return req->ece.options;
  }
  const Rep* rep = std::get_if<Rep>(&message);
  return rep != nullptr ? rep->ece.options : 0;
}

}  // namespace

Mad build_mad(std::uint64_t transaction, const Message& message) {
  ByteWriter body;
  const Attribute attribute =
      std::visit([&body](const auto& value) { return write(body, value); }, message);
  ByteWriter header;
  header.u8(kBaseVersion);
  header.u8(kManagementClass);
  header.u8(kClassVersion);
  header.u8(kMethodSend);
  header.u32(0);
  header.u64(transaction);
  header.u16(number(attribute));
  header.u16(0);
  header.u32(attribute_modifier(message));
  UROCE_CHECK(header.size() == kMadHeaderBytes && header.size() + body.size() <= kMadBytes);
  Mad mad{};
  const auto header_bytes = header.from(0);
  const auto body_bytes = body.from(0);
  std::copy(header_bytes.begin(), header_bytes.end(), mad.begin());
  std::copy(body_bytes.begin(), body_bytes.end(), mad.begin() + kMadHeaderBytes);
  return mad;
}

const char* name_of(const Message& message) {
  static constexpr const char* kNames[] = {"REQ",  "MRA", "REJ", "REP",      "RTU",     "DREQ",
                                           "DREP", "LAP", "APR", "SIDR_REQ", "SIDR_REP"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

}  // namespace uroce::control::cm
