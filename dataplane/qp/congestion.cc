// Congestion notifications (CNPs; IBTA vol. 1, annex A17.9.3): handling received ones, and sending
// one for a marked packet.

#include <algorithm>
#include <array>

#include "dataplane/qp/qp.h"
#include "dataplane/wire/ecn.h"

namespace uroce {
namespace {

constexpr std::size_t kReservedBytes = 16;  // behind the BTH
// A CNP that arrives later than this after the last packet sent can't concern it.
constexpr Duration kStaleAfter = kNanosecondsPerSecond;

// Congestion control reaches the window that the queue pair has without it.
static_assert(RateControl::kWindowMax == Requester::kWindowBytes);

}  // namespace

// Packets outside of the connection's PSN sequence that belong to it nevertheless.
Drop Qp::admit_outside_sequence(const Packet& packet) const {
  if (config_.type == QpType::kUd) {
    return Drop::kWrongQpType;
  }
  switch (attributes_.state) {
    case QpState::kRtr:
    case QpState::kRts:
    case QpState::kSqd:
    case QpState::kSqe:
      return admit_from(packet);
    default:
      return Drop::kWrongQpState;
  }
}

// Anybody who knows a queue pair's number can forge one, so only the peer's count, and only while
// something may be outstanding to it.
[[gnu::noinline]] Drop Qp::on_notification(const Packet& packet, Turn& turn) {
  const Drop drop = admit_outside_sequence(packet);
  const bool fresh = last_sent_ != 0 && turn.now - last_sent_ <= kStaleAfter;
  if (drop != Drop::kNone || !fresh) {
    ++counters_.rp_cnp_ignored;
    return drop == Drop::kNone ? Drop::kStaleResponse : drop;
  }
  ++counters_.rp_cnp_handled;
  requester_.on_peer_alive(turn);
  if (config_.congestion->mode != CongestionMode::kNone) {
    const bool first = !rate_.limited() && !rate_.measuring(turn.now);
    rate_.on_cnp(turn.now, counters_.bytes_sent);
    if (first) {
      requester_.window().halve();
    }
  }
  return Drop::kNone;
}

// Datagrams have many senders and no connection to slow down.
[[gnu::noinline]] void Qp::note_marked(Time now) {
  ++counters_.np_ecn_marked_roce_packets;
  if (config_.type != QpType::kUd && attributes_.state != QpState::kErr) {
    notification_point_.on_marked(now);
  }
}

// Sent on the reverse path, in its own traffic class, itself not ECN-capable. 0: the port is full.
std::uint32_t Qp::send_notification(Turn& turn) {
  Path path = attributes_.path;
  path.tos = static_cast<std::uint8_t>(config_.congestion->cnp_dscp << kDscpShift);
  const Headers headers{
      .opcode = Opcode::kCnp, .becn = true, .dest_qpn = attributes_.dest_qpn, .psn = 0};
  static constexpr std::array<std::byte, kReservedBytes> kReserved{};
  const std::uint32_t bytes = send_small(FrameTemplate(path), headers, kReserved, turn);
  if (bytes == 0) {
    return 0;
  }
  notification_point_.sent(turn.now, config_.congestion->cnp_interval);
  ++counters_.np_cnp_sent;
  return bytes;
}

// Sends what the rate allows; once that is used up, acknowledgements only, for which the peer's
// window waits.
std::uint32_t Qp::transmit_limited(Turn& turn, std::uint32_t bytes_max) {
  const std::uint32_t allowance = rate_.allowance(turn.now);
  if (!rate_.limited()) {
    held_back_ = false;
    requester_.window().remove_limit();
    return transmit_all(turn, bytes_max);
  }
  held_back_ = allowance == 0;
  if (held_back_) {
    return responder_.transmit_acknowledgement(turn);
  }
  requester_.limit_window(rate_.window());
  const std::uint32_t frames_before = turn.tx.ready_count();
  const std::uint32_t bytes = transmit_all(turn, std::min(bytes_max, allowance));
  rate_.sent(bytes, turn.tx.ready_count() - frames_before);
  held_back_ = rate_.due() > turn.now;
  return bytes;
}

}  // namespace uroce
