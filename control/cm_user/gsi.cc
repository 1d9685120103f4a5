#include "control/cm_user/gsi.h"

#include <array>

#include "dataplane/wire/build.h"
#include "dataplane/wire/frame.h"
#include "dataplane/wire/psn.h"

namespace uroce::control {
namespace {

constexpr std::size_t kFrameMax = 512;  // all headers, a MAD, the ICRC

// Linux answers from the port to which the request was sent, and keeps the sender's source port.
Path reply_path(const Packet& packet, const Device& device) {
  Path path;
  path.source_mac = device.mac();
  path.destination_mac = packet.source_mac();
  path.source_gid = packet.destination_gid();
  path.destination_gid = packet.source_gid();
  path.tos = packet.tos;
  return path;
}

}  // namespace

bool Gsi::send(const Device& device, const Path& path, std::uint32_t qpn, MadBytes bytes) {
  std::array<std::byte, kFrameMax> buffer;
  Frame frame;
  frame.data = buffer.data();
  frame.capacity = kFrameMax;
  const Headers headers{.opcode = Opcode::kUdSendOnly,
                        .dest_qpn = qpn,
                        .psn = next_psn_,
                        .deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn}};
  FrameWriter writer(frame, FrameTemplate(path), headers, kMadLength, ip_id_++);
  writer.append(bytes.data(), bytes.size());
  writer.finish();
  next_psn_ = psn_add(next_psn_, 1);
  const auto port = static_cast<std::uint16_t>(device.index());
  const bool sent = engine_.send_frame(port, {frame.data, frame.length});
  ++(sent ? counters_.sent : counters_.send_refused);
  return sent;
}

void Gsi::on_frame(Device& device, std::span<const std::byte> bytes) {
  Frame frame;
  // parse_headers() only reads.
  frame.data = const_cast<std::byte*>(bytes.data());
  frame.length = static_cast<std::uint32_t>(bytes.size());
  if (parse_headers(frame) != Drop::kNone || frame.packet.opcode != Opcode::kUdSendOnly ||
      frame.packet.payload_length != kMadLength) {
    return;  // changed since the worker validated it: some ports' buffers are shared with the peer
  }
  ++counters_.received;
  if (sink_ == nullptr) {
    ++counters_.unclaimed;
    return;
  }
  const Packet& packet = frame.packet;
  sink_->on_mad(device, ReceivedMad{.reply_path = reply_path(packet, device),
                                    .source_qpn = packet.deth().source_qpn,
                                    .bytes = MadBytes(packet.payload, kMadLength)});
}

}  // namespace uroce::control
