// What uroces tell each other of a lossy path, beside the sequence of a connection's packets
// (wire/kept_report.h): the requester asks for reports of what was kept, the responder gives them,
// and the requester sends all the holes again that one shows.

#include <algorithm>
#include <array>

#include "dataplane/qp/opcode_for.h"
#include "dataplane/qp/qp.h"
#include "dataplane/wire/build.h"

namespace uroce {

// Another manufacturer may use the same opcodes for something else.
Drop Qp::on_kept_notice(const Packet& packet, Turn& turn) {
  if (!config_.reliable() || turn.recovery == Recovery::kGoBackN) {
    return Drop::kUnknownOpcode;
  }
  const Drop drop = admit_beside(packet);
  if (drop != Drop::kNone) {
    return drop;
  }
  const std::span<const std::byte> payload(packet.payload, packet.payload_length);
  if (packet.opcode == Opcode::kKeptAsk) {
    if (!is_kept_ask(payload)) {
      return Drop::kUnknownOpcode;
    }
    responder_.report_kept();
    return Drop::kNone;
  }
  const auto report = parse_kept_report(payload);
  if (!report) {
    return Drop::kUnknownOpcode;
  }
  requester_.hear(turn);
  requester_.on_kept_report(packet.psn, *report, turn);
  return Drop::kNone;
}

// Bytes; 0: the port is full.
std::uint32_t Qp::send_kept_notice(Opcode opcode, std::uint32_t psn,
                                   std::span<const std::byte> payload, Turn& turn) {
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  const Headers headers{.opcode = opcode, .dest_qpn = attributes_.dest_qpn, .psn = psn};
  const auto length = static_cast<std::uint32_t>(payload.size());
  FrameWriter writer(*frame, frame_template_, headers, length, ip_id_++);
  writer.append(payload.data(), payload.size());
  writer.finish();
  turn.tx.send(frame);
  return frame->length;
}

// 0: nothing is kept any more. The first report says that there are reports, whatever it tells.
std::uint32_t Responder::transmit_kept_report(Turn& turn) {
  report_pending_ = false;
  if (kept_.count() == 0 && report_serial_ != 0) {
    return 0;
  }
  KeptReport report{.serial = ++report_serial_};
  for (std::uint32_t i = 0; kept_.count() != 0 && i <= distance(expected_psn_, newest_kept_); ++i) {
    report.kept[i] = i != 0 && kept_.has(psn_add(expected_psn_, i));
  }
  report.psns = kept_.count() == 0 ? 0 : distance(expected_psn_, newest_kept_) + 1;
  std::array<std::byte, kKeptReportBytesMax> payload;
  const std::size_t length = write_kept_report(report, payload);
  ++qp_->counters_.kept_reports_sent;
  return qp_->send_kept_notice(Opcode::kKeptReport, expected_psn_, std::span(payload).first(length),
                               turn);
}

std::uint32_t Requester::send_kept_ask(Turn& turn) {
  const std::uint32_t bytes =
      qp_.send_kept_notice(Opcode::kKeptAsk, unacked_psn_, kept_ask(), turn);
  if (bytes != 0) {
    peer_kept_.asked();
  }
  return bytes;
}

// The peer misses `psn`, or says so: what it has executed only acknowledgements tell.
void Requester::on_kept_report(std::uint32_t psn, const KeptReport& report, const Turn& turn) {
  if (!sending() || rnr_waiting_ || !peer_kept_.take(report.serial)) {
    return;
  }
  ++qp_.counters_.kept_reports_handled;
  if (report.psns == 0 || !outstanding(psn_add(psn, report.psns - 1))) {
    return;
  }
  for (std::uint32_t index = queue_.tail(); index != begun_index_ && repair_.has_room(); ++index) {
    take_report_of(queue_.entry(index), psn, report, turn);
  }
}

// What a report says of one work request's packets. Of a READ or an atomic it knows the request,
// whose PSN is the first.
void Requester::take_report_of(const SendEntry& entry, std::uint32_t psn, const KeptReport& report,
                               const Turn& turn) {
  const std::uint32_t newest = psn_add(psn, report.psns - 1);
  const bool answered = entry.wants_response();
  const std::int32_t end = answered ? 1 : static_cast<std::int32_t>(entry.packet_count);
  std::int32_t i = std::max(
      {0, psn_difference(unacked_psn_, entry.first_psn), psn_difference(psn, entry.first_psn)});
  for (; i < end; ++i) {
    const std::uint32_t at = psn_add(entry.first_psn, static_cast<std::uint32_t>(i));
    if (psn_difference(at, newest) > 0 || psn_difference(at, cursor_psn_) >= 0) {
      return;
    }
    if (report.kept[distance(psn, at)]) {
      peer_kept_.note(unacked_psn_, at);
      (void)(!answered && repair_.filled(at, turn.now));
    } else if (!answered) {
      (void)repair_.add_behind(at, newest);
    } else if (!repair_.in(at, psn_add(at, entry.packet_count))) {
      (void)repair_.add(at, entry.packet_count);
    }
  }
}

}  // namespace uroce
