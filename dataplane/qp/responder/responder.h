#pragma once

// The responder: executes the peer's requests and answers them. receive() checks and executes and
// notes what is to be answered; transmit() emits the answers in PSN order.
//
// What there is to say is kept as state, not as a queue: the reads and atomics not yet answered,
// at most one NAK, and whether an acknowledgement is due. An acknowledgement names the newest SEND
// or WRITE packet, so one covers a burst, and it waits until the reads and atomics before it are
// answered; a read's answer acknowledges all that came before. (It never names a read's own PSN:
// Linux's requester takes that for a fatal error. An RNR NAK may name its first, not one inside.)
//
// The worker that owns the queue pair owns this. Split by event: responder.cc (requests in
// sequence), responder_gap.cc (requests ahead of a missing one), responder_duplicate.cc (requests
// that come again), responder_message.cc (SEND and WRITE), responder_read_atomic.cc (READ and
// atomics), responder_extension.cc (ATOMIC WRITE and FLUSH), direct/responder_direct.cc (what comes
// without frames), responder_transmit.cc (answers), responder_receive.cc (receive work requests and
// their completions), responder_refuse.cc (what can't be executed), report.cc (what `uroce errors`
// shows of that), selective_acks.cc (SACKs, to a uroce), xrc_responder.cc (what XRC
// adds), uc_responder.cc and ud_responder.cc (what is different where nothing is answered).

#include <cstdint>

#include "abi/completion.h"
#include "base/prefetch.h"
#include "dataplane/qp/direct/request.h"
#include "dataplane/qp/failure_report.h"
#include "dataplane/qp/queues/receive_queue.h"
#include "dataplane/qp/recovery/out_of_order.h"
#include "dataplane/qp/responder/responder_resources.h"
#include "dataplane/qp/responder/xrc_domain.h"
#include "dataplane/qp/turn.h"
#include "dataplane/wire/frame.h"

namespace uroce {

class Qp;
struct MemoryScope;

class Responder {
 public:
  explicit Responder(Qp& qp) : qp_(&qp) {}

  // For Qp::modify. reset(): forgets everything, also at RESET. modified(): qp.attributes() has new
  // values of what `mask` (QpAttributeMask) says.
  void reset();
  void modified(std::uint32_t mask);

  // For Qp::flush, with the queue pair in ERR: completes the receive work request in hand and its
  // own receive queue with kWrFlushErr, at most Qp::kFlushMax of it; true if that was all. What has
  // been decided before (answers up to a NAK that brought the queue pair here) is still sent; else
  // nothing is.
  bool flush(Turn& turn);

  // A request packet. REQUIRES: it suits the queue pair's type, state, source and P_Key.
  Step receive(const Packet& packet, Turn& turn, Drop* drop);

  // For Qp::execute_directly.
  [[nodiscard]] bool execute_directly(const Request& request, Turn& turn);

  // Sends answers of at most about `bytes_max` bytes; returns the bytes sent.
  std::uint32_t transmit(Turn& turn, std::uint32_t bytes_max);
  [[nodiscard]] bool has_work() const {
    return acknowledgement_due() || (resources_.any_pending() && (!answer_parked_ || busy_));
  }

  // Whether a NAK, an acknowledgement or a SACK is due that needn't wait for earlier responses.
  [[nodiscard]] bool acknowledgement_due() const {
    return sack_pending_ ||
           (!resources_.any_pending() && (busy_ || nak_ != PendingNak::kNone || ack_pending_));
  }
  // Sends only that; returns the bytes.
  std::uint32_t transmit_acknowledgement(Turn& turn) {
    return acknowledgement_due() && turn.tx.room() != 0 ? transmit_next(turn, 1) : std::uint32_t{0};
  }

  // For Qp::repeats.
  [[nodiscard]] bool repeats(const Packet& request) const;

  // Requests or responses wait for memory, and the peer retransmits or sends more than may be
  // parked, as the packet with this PSN shows: sends an RNR NAK for it, unless only copies of a
  // program's memory are waited for, and not for long.
  void busy(std::uint32_t psn, const Turn& turn);

  // For Qp::on_parked_dropped.
  void on_parked_dropped(Turn& turn);

  // A page fault of the queue pair is resolved: what was parked continues, or parks again.
  void resume();
  // After resume(), when what had parked has been received, or parks again.
  void caught_up();

  // For Qp::forget_srq: a receive work request of this queue isn't held any more.
  void forget_srq(std::uint32_t number);
  // For Qp::last_srq.
  [[nodiscard]] std::uint32_t last_srq() const { return xrc_srq_.number; }

  // Out-of-order requests that the caller buffers for this responder; on_out_of_order_dropped():
  // it has dropped them.
  [[nodiscard]] std::uint32_t out_of_order() const { return out_of_order_.count(); }
  void on_out_of_order_dropped();

  // Prefetches what has_work() reads, or what receiving a request accesses.
  void prefetch_answers() const { prefetch_line(out_of_order_.line()); }
  void prefetch_receiving() const { prefetch_lines(out_of_order_.line(), kHotBytes); }
  // The peer is a uroce and requested selective acknowledgements.
  void want_sacks() { sacks_wanted_ = sack_pending_ = true; }

  [[nodiscard]] std::uint32_t expected_psn() const { return expected_psn_; }
  [[nodiscard]] std::uint32_t msn() const { return msn_; }

 private:
  [[nodiscard]] std::uint32_t resources() const;  // for READs and atomics
  enum class PendingNak : std::uint8_t { kNone, kSequence, kRnr, kFatal };
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  // `noinline`: where receive(), which is compiled in one piece with what WRITEs need, ends.

  // Requests in sequence (responder.cc, responder_message.cc, responder_read_atomic.cc,
  // responder_extension.cc).
  void note_established(Turn& turn);
  Step execute_in_sequence(const Request& request, Turn& turn);
  Step execute(const Request& request, Turn& turn);
  [[nodiscard]] MemoryScope memory(const Turn& turn) const;
  [[gnu::noinline]] Step send(const Request& request, Turn& turn);
  Step write(const Request& request, Turn& turn);
  inline Step store(const Request& request, Turn& turn);  // of responder_message.cc alone
  [[gnu::noinline]] Step read(const Request& request, Turn& turn);
  [[gnu::noinline]] Step atomic(const Request& request, Turn& turn);
  [[gnu::noinline]] Step atomic_write(const Packet& packet, Turn& turn);
  [[gnu::noinline]] Step flush_memory(const Packet& packet, Turn& turn);
  void advance(const Request& request);
  void advance_read(std::uint32_t psns);

  // Requests ahead of a missing one (responder_gap.cc).
  [[gnu::noinline]] Step ahead(const Packet& packet, Turn& turn, Drop* drop);
  void announce_gap(const Packet& packet);
  [[gnu::noinline]] void close_gap();
  void note_out_of_order(const Packet& packet);

  // Which packets are buffered, for a peer that wants to know (selective_acks.cc).
  std::uint32_t transmit_sack(Turn& turn);

  // Without frames (direct/responder_direct.cc).
  [[nodiscard]] bool settled() const;
  Step decline();
  std::uint32_t answer_directly(Resource& resource, Turn& turn, std::uint32_t bytes_max);

  // Unreliable queue pairs (uc_responder.cc, ud_responder.cc).
  [[gnu::noinline]] Step receive_uc(const Packet& packet, Turn& turn, Drop* drop);
  [[gnu::noinline]] Step receive_datagram(const Packet& packet, Turn& turn, Drop* drop);
  Step deliver_datagram(const Packet& packet, Turn& turn);
  Step answer_nothing(Step step);
  Step abandon(Drop reason, Turn& turn);
  void drop_message(Failure failure, Turn& turn);
  void drop_incomplete_message(Turn& turn);
  void forget_stores();

  // Duplicates (responder_duplicate.cc).
  [[gnu::noinline]] Drop duplicate(const Packet& packet, const Turn& turn);
  [[nodiscard]] bool asks_for_rest(const Packet& packet);
  [[nodiscard]] bool replay_read(const Packet& packet);
  [[nodiscard]] bool replay_atomic(const Packet& packet);

  // XRC (xrc_responder.cc).
  [[gnu::noinline]] Step execute_xrc(const Request& request, Turn& turn);

  // Receive work requests (responder_receive.cc).
  [[nodiscard]] ReceiveQueue* receive_queue() const;
  [[gnu::noinline]] Step hold_receive(Turn& turn, bool* held);
  [[gnu::noinline]] void complete_receive(const Request& request, Turn& turn);
  void complete_failed(abi::WcStatus status, Failure failure, Turn& turn);
  void push(const abi::Cqe& cqe, bool solicited, Turn& turn);
  [[nodiscard]] abi::Cqe blank_cqe(const Turn& turn) const;

  // Refusals (responder_refuse.cc). They return kDone, since the packet isn't needed any more;
  // kParked only for memory that isn't resident.
  Step not_ready(Turn& turn);
  [[nodiscard]] bool awaits_only_copies() const;
  void pass_over(std::uint32_t psn);
  [[gnu::noinline]] Step refuse(Nak nak, Failure failure, Turn& turn);
  [[gnu::noinline]] Step refuse_remote(Access access, Turn& turn);
  Step refuse_local(Access access, Turn& turn);
  Step refuse_receive(abi::WcStatus status, Nak nak, Failure failure, Turn& turn);
  void refuse_answer(Access access, Resource& resource, std::uint32_t psn, Turn& turn);
  void fail(Nak nak, std::uint32_t psn, Turn& turn);
  Step invalidate_failed(Turn& turn);

  // What `uroce errors` shows of it (report.cc).
  [[nodiscard]] FailureReport blank_report(Failure failure, abi::WcStatus status) const;
  void report(Failure failure, abi::WcStatus status, Turn& turn) const;
  void report_answer(Failure failure, const Resource& resource, std::uint32_t psn,
                     Turn& turn) const;
  void report_flushed(std::uint32_t count, Turn& turn) const;

  // Answers (responder_transmit.cc).
  std::uint32_t transmit_next(Turn& turn, std::uint32_t bytes_max);
  std::uint32_t transmit_resource(Resource& resource, Turn& turn, std::uint32_t bytes_max);
  std::uint32_t transmit_nak(Turn& turn);
  std::uint32_t transmit_busy(Turn& turn);
  std::uint32_t transmit_aeth(const Aeth& aeth, std::uint32_t psn, Turn& turn);

  OutOfOrderPackets out_of_order_;
  // What each message needs, in lines side by side: from the end of that to the message being
  // received. has_work() looks no further than to the beginning of resources_, in the first line.
  static constexpr std::size_t kHotBytes = 3 * kCacheLine;
  Qp* qp_;
  std::uint32_t expected_psn_ = 0;
  std::uint32_t msn_ = 0;  // messages completed, 24 bits

  // What is to be answered.
  std::uint32_t ack_psn_ = 0;  // of the newest SEND or WRITE packet executed
  std::uint32_t ack_msn_ = 0;  // the MSN after it
  std::uint32_t nak_psn_ = 0;  // of kFatal
  std::uint32_t flushed_ = 0;  // receive work requests, and not reported yet
  std::uint32_t gap_psn_ = 0;  // the newest PSN that came ahead
  bool ack_pending_ = false;
  bool gap_announced_ = false;  // packets that come ahead raise no other NAK
  bool gap_after_rnr_ = false;  // the gap is that of an RNR NAK
  bool answer_parked_ = false;  // memory for the next answer isn't resident
  PendingNak nak_ = PendingNak::kNone;
  Nak nak_code_ = Nak::kPsnSequence;
  Drop abandoned_ = Drop::kNone;  // unreliable: why the packet being executed isn't delivered
  bool direct_ = false;           // what is executed comes without frames,
  bool declined_ = false;         // and can't be
  // In ERR: what was accepted before is still answered, though no NAK ends it.
  bool answers_owed_ = false;
  // An RNR NAK for memory that is on its way; doesn't wait for answers that do.
  bool busy_ = false;
  bool sack_pending_ = false;
  ResourceRing resources_;           // answers to READs and atomics
  const Packet* current_ = nullptr;  // inside receive(): the packet in hand, for reports

  // The message being received.
  Message message_ = Message::kNone;
  bool holding_ = false;              // receive_ is a receive work request that was taken
  std::uint32_t offset_ = 0;          // bytes of the message received so far
  std::uint32_t write_length_ = 0;    // WRITE: of the whole message
  std::uint32_t write_rkey_ = 0;      // WRITE
  std::uint64_t write_address_ = 0;   // WRITE: of the message's first byte
  std::uint64_t receive_length_ = 0;  // what the receive work request in hand can hold

  std::uint32_t busy_psn_ = 0;
  std::uint8_t busy_timer_code_ = 0;
  bool passed_over_ = false;           // packets weren't received that came while others waited
  std::uint32_t passed_over_psn_ = 0;  // the newest of them
  bool communication_established_ = false;
  bool last_wqe_announced_ = false;
  bool sacks_wanted_ = false;
  std::uint32_t newest_out_of_order_ = 0;
  std::uint32_t sack_serial_ = 0;

  XrcSrq xrc_srq_;  // XRC: that the message names

  ReceiveEntry receive_;
};

}  // namespace uroce
