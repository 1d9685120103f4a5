#include "dataplane/qp/qp.h"

#include <algorithm>
#include <cstdlib>

#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/opcode_for.h"
#include "dataplane/wire/ecn.h"

namespace uroce {
namespace {

// P_Keys match when the low 15 bits are equal and at least one side is a full member (IBTA vol. 1,
// 10.9.3). There is one key, 0xFFFF, and with it this side is full.
constexpr std::uint16_t kPkeyBase = 0x7FFF;

bool receives(QpState state, bool request) {
  switch (state) {
    case QpState::kRtr:
      return request;
    case QpState::kRts:
    case QpState::kSqd:
    case QpState::kSqe:
      return true;
    default:
      return false;
  }
}

}  // namespace

Qp::Qp(const QpConfig& config)
    : config_(config), rate_(*config.congestion), requester_(*this), responder_(*this) {}

void Qp::modify(const QpAttributes& attributes, std::uint32_t mask, Turn& turn) {
  take_attributes(attributes, mask);
  responder_.modified(mask);
  requester_.modified(mask, turn.now);
  if ((mask & kQpMaskState) == 0) {
    return;
  }
  const QpState from = attributes_.state;
  attributes_.state = attributes.state;
  switch (attributes.state) {
    case QpState::kReset:
      next_flush_ = kNever;
      forget_faults();
      notification_point_.forget();
      rate_.forget();
      held_back_ = false;
      attributes_ = QpAttributes{};
      requester_.reset();
      responder_.reset();
      break;
    case QpState::kInit:
    case QpState::kRtr:
      break;
    case QpState::kRts:
      if (from == QpState::kRtr) {
        requester_.start(attributes_.sq_psn, turn);
      } else {
        if (from == QpState::kSqe) {
          finish_sqe(turn);
        }
        requester_.undrain(turn);
      }
      break;
    case QpState::kSqd:
      if (from != QpState::kSqd) {
        requester_.drain(turn);
      }
      break;
    case QpState::kSqe:
      break;
    case QpState::kErr:
      notification_point_.forget();
      forget_faults();
      flush(turn);
      break;
  }
}

void Qp::take_attributes(const QpAttributes& from, std::uint32_t mask) {
  const auto take = [&](std::uint32_t bit, auto QpAttributes::*member) {
    if ((mask & bit) != 0) {
      attributes_.*member = from.*member;
    }
  };
  take(kQpMaskPathMtu, &QpAttributes::path_mtu);
  take(kQpMaskQkey, &QpAttributes::qkey);
  take(kQpMaskRqPsn, &QpAttributes::rq_psn);
  take(kQpMaskSqPsn, &QpAttributes::sq_psn);
  take(kQpMaskDestQpn, &QpAttributes::dest_qpn);
  take(kQpMaskAccess, &QpAttributes::access);
  take(kQpMaskPkeyIndex, &QpAttributes::pkey_index);
  take(kQpMaskMaxRdAtomic, &QpAttributes::max_rd_atomic);
  take(kQpMaskMaxDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
  take(kQpMaskMinRnrTimer, &QpAttributes::min_rnr_timer);
  take(kQpMaskTimeout, &QpAttributes::timeout);
  take(kQpMaskRetryCnt, &QpAttributes::retry_cnt);
  take(kQpMaskRnrRetry, &QpAttributes::rnr_retry);
  // Of the modify to SQD. Later ones change other attributes, and the event still comes.
  if (attributes_.state != QpState::kSqd || from.state != QpState::kSqd) {
    take(kQpMaskState, &QpAttributes::sqd_async_notify);
  }
  if ((mask & kQpMaskPath) != 0) {
    attributes_.path = from.path;
    Path path = from.path;
    // Not for datagrams, whose sender isn't notified, nor if the program uses marks itself.
    if (config_.shares_network && config_.type != QpType::kUd &&
        ecn_of(path.tos) == Ecn::kNotCapable) {
      path.tos = with_ecn(path.tos, Ecn::kCapable0);
    }
    frame_template_ = FrameTemplate(path);
  }
}

// Inlined with what admits a packet; the roles are separate.
[[gnu::flatten]] Step Qp::receive(const Frame& frame, Turn& turn, Drop* drop) {
  const OpcodeInfo& info = opcode_info(frame.packet.opcode);
  if (outside_sequence(info.operation)) [[unlikely]] {
    *drop = info.operation == Operation::kCnp ? on_notification(frame.packet, turn)
                                              : on_sack_packet(frame.packet, turn);
    return Step::kDone;
  }
  *drop = admit(frame.packet);
  if (*drop != Drop::kNone) {
    return Step::kDone;
  }
  requester_.on_peer_alive(turn);
  const Step step = info.request ? responder_.receive(frame.packet, turn, drop)
                                 : requester_.receive(frame.packet, turn, drop);
  // Parked packets come again; out-of-order ones were checked when they arrived.
  if (ecn_of(frame.packet.tos) == Ecn::kCongested && step != Step::kParked && !turn.again)
      [[unlikely]] {
    note_marked(turn.now);
  }
  return step;
}

Drop Qp::admit(const Packet& packet) const {
  const Drop reason = admit_kind(opcode_info(packet.opcode));
  return reason == Drop::kNone ? admit_from(packet) : reason;
}

Drop Qp::admit_kind(const OpcodeInfo& info) const {
  if (info.transport != transport_of(config_.type) ||
      config_.type == (info.request ? QpType::kXrcSend : QpType::kXrcRecv)) {
    return Drop::kWrongQpType;
  }
  if (!receives(attributes_.state, info.request)) {
    return Drop::kWrongQpState;
  }
  return Drop::kNone;
}

Drop Qp::admit_from(const Packet& packet) const {
  // Datagrams come from anywhere.
  if (config_.type != QpType::kUd && !expects(packet.source_gid(), packet.destination_gid())) {
    return Drop::kWrongSource;
  }
  if ((packet.pkey & kPkeyBase) != kPkeyBase) {
    return Drop::kBadPkey;
  }
  return Drop::kNone;
}

bool Qp::expects(const Gid& source, const Gid& destination) const {
  return source == attributes_.path.destination_gid && destination == attributes_.path.source_gid;
}

bool Qp::is_local_peer(const Qp& other) const {
  return &other != this && config_.port == other.config_.port && config_.type != QpType::kUd &&
         transport_of(config_.type) == transport_of(other.config_.type) &&
         attributes_.dest_qpn == other.config_.qpn && other.attributes_.dest_qpn == config_.qpn &&
         expects(other.attributes_.path.source_gid, other.attributes_.path.destination_gid);
}

bool Qp::execute_directly(const Request& request, Turn& turn) {
  if (admit_kind(request.info) != Drop::kNone) {
    return false;
  }
  requester_.on_peer_alive(turn);
  return responder_.execute_directly(request, turn);
}

std::uint32_t Qp::transmit(Turn& turn, std::uint32_t bytes_max) {
  const std::uint32_t direct_before = turn.direct_bytes;
  const std::uint32_t notification =
      notification_point_.pending() ? send_notification(turn) : std::uint32_t{0};
  std::uint32_t bytes =
      rate_.limited() ? transmit_limited(turn, bytes_max) : transmit_all(turn, bytes_max);
  if (bytes != 0) {
    last_sent_ = turn.now;
  }
  bytes += notification;
  counters_.bytes_sent += bytes - (turn.direct_bytes - direct_before);
  return bytes;
}

std::uint32_t Qp::transmit_all(Turn& turn, std::uint32_t bytes_max) {
  std::uint32_t bytes = transmit_both(turn, bytes_max);
  if (bytes < bytes_max && responder_.has_work()) {
    bytes += responder_.transmit(turn, bytes_max - bytes);
  }
  if (bytes < bytes_max && requester_.has_work()) {
    bytes += requester_.transmit(turn, bytes_max - bytes);
  }
  return bytes;
}

// While both roles have something to send they share by bytes, frame by frame: a peer that always
// has a READ to be answered must not starve our own requests, and a bulk WRITE must not delay
// answers until the peer's timer runs out. At a tie answers go first, since they are usually short.
// Which role is ahead is remembered between calls, since a call may end after a single frame; what
// a role left unused while it had nothing to send is not.
std::uint32_t Qp::transmit_both(Turn& turn, std::uint32_t bytes_max) {
  std::uint32_t bytes = 0;
  while (responder_.has_work() && requester_.has_work()) {
    if (bytes >= bytes_max || turn.tx.room() == 0) {
      return bytes;
    }
    const bool answers = answers_ahead_ <= 0;
    const auto behind_by = static_cast<std::uint32_t>(std::abs(answers_ahead_));
    const std::uint32_t share = std::min(bytes_max - bytes, behind_by + 1);
    const std::uint32_t sent =
        answers ? responder_.transmit(turn, share) : requester_.transmit(turn, share);
    if (sent == 0) {
      break;  // it turned out that this role must wait
    }
    bytes += sent;
    answers_ahead_ += answers ? static_cast<std::int32_t>(sent) : -static_cast<std::int32_t>(sent);
  }
  answers_ahead_ = 0;
  return bytes;
}

// One packet without payload from programs. Returns its bytes; 0: the port is full.
std::uint32_t Qp::send_small(const FrameTemplate& path, const Headers& headers,
                             std::span<const std::byte> payload, Turn& turn) {
  Frame* frame = turn.tx.take();
  if (frame == nullptr) {
    return 0;
  }
  const auto length = static_cast<std::uint32_t>(payload.size());
  FrameWriter writer(*frame, path, headers, length, ip_id_++);
  if (length != 0) {
    writer.append(payload.data(), length);
  }
  writer.finish();
  frame->sent_for = {.qpn = config_.qpn, .cause = SentFor::Cause::kAcknowledgement};
  turn.tx.send(frame);
  return frame->length;
}

bool Qp::has_work() const {
  if (held_back_) {
    return responder_.acknowledgement_due() || notification_point_.pending();
  }
  return responder_.has_work() || requester_.has_work() || notification_point_.pending();
}

bool Qp::draining() const { return attributes_.state == QpState::kSqd && !requester_.drained(); }

void Qp::on_doorbell(Turn& turn) {
  if (flushes()) {
    flush(turn);
    return;
  }
  requester_.on_doorbell(turn);
}

Time Qp::deadline() const {
  return std::min({requester_.deadline(), next_flush_, held_back_ ? rate_.due() : kNever});
}

void Qp::on_deadline(Turn& turn) {
  held_back_ = held_back_ && turn.now < rate_.due();
  if (next_flush_ <= turn.now) {
    flush(turn);
    return;
  }
  requester_.on_deadline(turn);
}

// In ERR or SQE. What exceeds the limit of a turn is flushed in the next ones.
void Qp::flush(Turn& turn) {
  bool all = requester_.flush(turn, kFlushMax);
  if (attributes_.state == QpState::kErr) {
    all = responder_.flush(turn) && all;
  }
  next_flush_ = all ? kNever : turn.now + 1;
}

// SQE -> RTS: work requests posted before must not be sent, even if their doorbell hasn't been seen
// yet. Flushes no more than a ring holds: control looks once.
void Qp::finish_sqe(Turn& turn) {
  next_flush_ = kNever;
  // One more than there can be: the requester reports the flush when nothing is left.
  (void)requester_.flush(turn, config_.send_entry_count + 1);
}

void Qp::on_out_of_order_dropped() {
  responder_.on_out_of_order_dropped();
  requester_.on_out_of_order_dropped();
}

void Qp::forget_srq(std::uint32_t number) { responder_.forget_srq(number); }

void Qp::resume(Turn& turn) {
  for (FaultSlot& slot : fault_slots_) {
    slot.parked = slot.waiting;
  }
  requester_.resume(turn);
  responder_.resume();
}

void Qp::settle(FaultRole role, std::uint32_t ticket, Access outcome, std::uint64_t failed_page) {
  FaultSlot& slot = fault_slots_[role];
  if (!slot.waiting || slot.ticket != ticket) {
    return;  // the role has been reset since
  }
  slot.waiting = false;
  slot.page = FaultSlot::kNoPage;
  slot.failed = outcome;
  slot.failed_page = failed_page;
}

void Qp::take_copy(std::unique_ptr<ProcMemCopy> copy) {
  ProcMemSlot* const slow = fault_slots_[copy->role].slow.get();
  if (slow != nullptr && slow->id == copy->slot) {       // otherwise the role has been reset since
    fault_slots_[copy->role].page = FaultSlot::kNoPage;  // if the role waits again, it waits anew
    slow->take(std::move(copy));
  }
}

MemoryScope Qp::memory(FaultRole role, const Turn& turn) {
  return {.keys = turn.keys,
          .pd = config_.pd,
          .qpn = config_.qpn,
          .faults = turn.faults,
          .slot = &fault_slots_[role],
          .role = role,
          .now = turn.now,
          .withheld = turn.withheld && turn.faults != nullptr};
}

void Qp::fail(Turn& turn) {
  if (attributes_.state == QpState::kErr) {
    return;
  }
  attributes_.state = QpState::kErr;
  forget_faults();
  flush(turn);
}

void Qp::fail_sending(Turn& turn) {
  attributes_.state = QpState::kSqe;
  fault_slots_[FaultRole::kRequester].reset();
  flush(turn);
}

void Qp::forget_faults() {
  for (FaultSlot& slot : fault_slots_) {
    slot.reset();
  }
}

void Qp::fail(Turn& turn, AsyncEvent event) {
  fail(turn);
  turn.events.announce(event, config_.qpn);
}

void Qp::complete(CompletionQueue& queue, const abi::Cqe& cqe, bool solicited, Turn& turn) {
  if (queue.push(cqe, solicited, turn.events)) {
    turn.dirty_queues.push_back(&queue);
  }
}

}  // namespace uroce
