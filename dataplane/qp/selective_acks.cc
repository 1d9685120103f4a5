// Selective acknowledgements (SACKs) between uroces, outside of the connection's PSN sequence
// (wire/sack.h): the requester requests them, the responder tells by them which out-of-order
// packets it has buffered, and the requester retransmits all holes that a SACK shows.

#include <algorithm>
#include <array>

#include "dataplane/qp/qp.h"
#include "dataplane/wire/build.h"
#include "dataplane/wire/sack.h"

namespace uroce {

// Another manufacturer may use the same opcodes for something else.
[[gnu::noinline]] Drop Qp::on_sack_packet(const Packet& packet, Turn& turn) {
  if (!config_.reliable() || turn.recovery == Recovery::kGoBackN) {
    return Drop::kUnknownOpcode;
  }
  const bool request = packet.opcode == Opcode::kSackRequest;
  if (config_.type == (request ? QpType::kXrcSend : QpType::kXrcRecv)) {
    return Drop::kWrongQpType;
  }
  const Drop drop = admit_outside_sequence(packet);
  if (drop != Drop::kNone) {
    return drop;
  }
  const std::span<const std::byte> payload(packet.payload, packet.payload_length);
  if (request) {
    if (!is_sack_request(payload)) {
      return Drop::kUnknownOpcode;
    }
    responder_.want_sacks();
    return Drop::kNone;
  }
  const auto sack = parse_sack(payload);
  return sack ? requester_.on_sack(packet.psn, *sack, turn) : Drop::kUnknownOpcode;
}

// 0: nothing is buffered any more. The first SACK shows that the request was understood, whatever
// it contains.
std::uint32_t Responder::transmit_sack(Turn& turn) {
  sack_pending_ = false;
  if (out_of_order_.count() == 0 && sack_serial_ != 0) {
    return 0;
  }
  Sack sack{.serial = ++sack_serial_};
  sack.psns =
      out_of_order_.count() == 0 ? 0 : psn_distance(expected_psn_, newest_out_of_order_) + 1;
  for (std::uint32_t i = 1; i < sack.psns; ++i) {
    sack.received[i] = out_of_order_.has(psn_add(expected_psn_, i));
  }
  std::array<std::byte, kSackBytesMax> payload;
  const std::size_t length = write_sack(sack, payload);
  const Headers headers{
      .opcode = Opcode::kSack, .dest_qpn = qp_->attributes_.dest_qpn, .psn = expected_psn_};
  ++qp_->counters_.sacks_sent;
  return qp_->send_small(qp_->frame_template_, headers, std::span(payload).first(length), turn);
}

std::uint32_t Requester::send_sack_request(Turn& turn) {
  const Headers headers{
      .opcode = Opcode::kSackRequest, .dest_qpn = qp_.attributes_.dest_qpn, .psn = unacked_psn_};
  const std::uint32_t bytes = qp_.send_small(qp_.frame_template_, headers, sack_request(), turn);
  if (bytes != 0) {
    scoreboard_.requested();
  }
  return bytes;
}

// The peer misses `psn`, or says so: only acknowledgements tell what it has executed.
Drop Requester::on_sack(std::uint32_t psn, const Sack& sack, const Turn& turn) {
  const std::uint32_t newest = psn_add(psn, std::max(sack.psns, 1U) - 1);
  const bool plausible =
      sack.psns == 0 ? newest == high_psn_ || outstanding(newest) : outstanding(newest);
  if (!sending() || rnr_waiting_ || !plausible || !scoreboard_.take(sack.serial)) {
    return Drop::kStaleResponse;
  }
  on_peer_alive(turn);
  ++qp_.counters_.sacks_handled;
  peer_buffering_.set_reported(sack.psns != 0);
  // For an executed READ or atomic the hole stands for its response, which hasn't arrived.
  const auto arrived = [&](std::uint32_t at) {
    return psn_difference(at, psn) < 0
               ? !queue_.entry(index_of(at)).wants_response()
               : psn_distance(psn, at) < sack.psns && sack.received[psn_distance(psn, at)];
  };
  repair_.closed(arrived, turn.now);
  std::uint32_t index = queue_.tail();
  while (sack.psns != 0 && index != begun_index_ && take_sack_of(queue_.entry(index), psn, sack)) {
    ++index;
  }
  return Drop::kNone;
}

// Applies a SACK to one work request's packets. For a READ or an atomic it covers only the request,
// whose PSN is the first. False: the SACK ends before those that follow.
bool Requester::take_sack_of(const SendEntry& entry, std::uint32_t psn, const Sack& sack) {
  const std::uint32_t newest = psn_add(psn, sack.psns - 1);
  const std::int32_t end =
      entry.wants_response() ? 1 : static_cast<std::int32_t>(entry.packet_count);
  std::int32_t i = std::max(
      {0, psn_difference(unacked_psn_, entry.first_psn), psn_difference(psn, entry.first_psn)});
  for (; i < end; ++i) {
    const std::uint32_t at = psn_add(entry.first_psn, static_cast<std::uint32_t>(i));
    if (psn_difference(at, newest) > 0 || psn_difference(at, cursor_psn_) >= 0) {
      return false;
    }
    if (sack.received[psn_distance(psn, at)]) {
      scoreboard_.note(unacked_psn_, at);
    } else {
      add_sack_hole(at, entry, newest);
    }
  }
  return true;
}

// A packet that the peer misses, although it has a later one. If there are too many, the next SACK
// names the rest.
void Requester::add_sack_hole(std::uint32_t psn, const SendEntry& entry, std::uint32_t newest) {
  round_trip_.cancel();
  if (!entry.wants_response()) {
    (void)repair_.add_behind(psn, newest);
  } else if (!repair_.in(psn, psn_add(psn, entry.packet_count))) {
    (void)repair_.add(psn, entry.packet_count);
  }
}

}  // namespace uroce
