#pragma once

// The requester and the completer of a queue pair: two roles on one state, so one class. The
// requester turns posted work into packets; the completer takes what the peer answers and retires
// the work in order.
//
// The methods are spread over files by protocol event:
//   requester.cc         life cycle: start, drain, flush, reset
//   requester_send.cc    what to send next; SEND and WRITE packets
//   requester_read.cc    READ and atomic requests
//   requester_extension.cc  ATOMIC WRITE and FLUSH requests
//   requester_local.cc   what needs no packet: binding windows, invalidating keys
//   completer.cc         steers responses; retires work in order
//   completer_ack.cc     acknowledgements
//   completer_nak.cc     RNR, sequence and fatal NAKs
//   completer_read.cc    READ responses and atomic acknowledgements
//   retransmit.cc        timeouts, going back, giving up (retry_budget.h says when)
//   requester_receiver.cc  what a peer that isn't ready to receive gets
//   requester_repair.cc  holes sent again by themselves; the probe into a silence
//   requester_gap.cc     answers that arrive while an earlier one is missing
//   selective_acks.cc    which out-of-order packets the peer has
//   unreliable_requester.cc  UC and UD: sent is done
//   direct/requester_direct.cc  without frames, to a local peer
//   latency/requester_latency.cc  how long messages take
//
// PSNs, oldest first (all differences are at most 2^23):
//
//   unacked_psn_ <= cursor_psn_ <= high_psn_ <= next_psn_
//
// [unacked, high) was sent and isn't acknowledged. The cursor is what is sent next: behind
// high_psn_ while packets are sent again, equal to it otherwise. next_psn_ is the first PSN of the
// next message; it is ahead of high_psn_ while a message is under way. unacked_psn_ lies in the
// oldest entry, since entries are retired as soon as they are done.

#include <cstdint>

#include "base/prefetch.h"
#include "base/time.h"
#include "dataplane/qp/congestion/send_window.h"
#include "dataplane/qp/direct/direct_policy.h"
#include "dataplane/qp/failure.h"
#include "dataplane/qp/latency/message_timer.h"
#include "dataplane/qp/queues/send_queue.h"
#include "dataplane/qp/recovery/out_of_order.h"
#include "dataplane/qp/recovery/peer_buffering.h"
#include "dataplane/qp/recovery/receiver_window.h"
#include "dataplane/qp/recovery/repair.h"
#include "dataplane/qp/recovery/retry_budget.h"
#include "dataplane/qp/recovery/sack_scoreboard.h"
#include "dataplane/qp/turn.h"
#include "dataplane/wire/packet.h"
#include "mmu/access.h"

namespace uroce {

class ByteRuns;
class FrameWriter;
class Qp;
struct DirectAnswer;
struct Headers;

// The failure reported when a work request's own memory is refused.
[[nodiscard]] constexpr Failure send_failure(Access access) {
  switch (access) {
    case Access::kUnmapped:
      return Failure::kSendUnmapped;
    case Access::kLate:
      return Failure::kSendLate;
    case Access::kLost:
      return Failure::kSendLost;
    default:
      return Failure::kSendKey;
  }
}

class Requester {
 public:
  // The window: at most this many unacknowledged packets, and about this many bytes, not counting
  // packets that the peer has selectively acknowledged.
  static constexpr std::uint32_t kWindowPackets = 512;
  static constexpr std::uint32_t kWindowBytes = 1U << 20U;
  // An acknowledgement is requested every so many packets of a message; a power of two, far below
  // the window so that a long message never stalls.
  static constexpr std::uint32_t kAckRequestEvery = 32;
  // The limit of outstanding PSNs (IBTA vol. 1, 9.7.1); a READ takes one for each response.
  static constexpr std::uint32_t kPsnsOutstandingMax = 1U << 23U;
  // Local operations (no packets) in one call of transmit(), as they send no bytes that would limit
  // it.
  static constexpr std::uint32_t kLocalOperationsMax = 32;

  explicit Requester(Qp& qp);

  // After a modify of these attributes (kQpMask...).
  void modified(std::uint32_t mask, Time now);
  // RTR -> RTS: the next request gets this PSN.
  void start(std::uint32_t psn, const Turn& turn);
  // RTS -> SQD: begins no new message; kSqDrained is announced when all that was begun is done.
  void drain(Turn& turn);
  // SQD -> RTS.
  void undrain(Turn& turn);
  // For Qp::flush, with the queue pair in ERR or SQE: completes what is posted with kWrFlushErr, at
  // most `max` of it. True if that was all.
  bool flush(Turn& turn, std::uint32_t max);
  // RESET: forgets everything.
  void reset();

  void on_doorbell(Turn& turn);
  // Prefetches the state that each message needs, sent or received; then, once that is cached, the
  // next work request.
  void prefetch() const { prefetch_lines(scoreboard_.line(), kHotBytes); }
  void prefetch_retry_budget() const { prefetch_line_to_write(&retry_budget_); }
  void prefetch_work() const { queue_.prefetch(cursor_index_); }
  [[nodiscard]] bool times_none() const { return message_timer_.idle(); }
  // Whether transmit() would send something, or try to.
  [[nodiscard]] bool has_work() const;
  std::uint32_t transmit(Turn& turn, std::uint32_t bytes_max);

  [[nodiscard]] bool reads() const { return reads_out_ != 0 || read_frames_wanted_ != 0; }
  [[nodiscard]] std::uint32_t read_frames_out() const;
  [[nodiscard]] std::uint32_t read_frames_wanted() const { return read_frames_wanted_; }
  void reads_may_go() { read_frames_wanted_ = 0; }

  // A response or acknowledgement. kParked: the memory for it isn't resident; nothing has changed
  // for this packet, and it is to be received again after resume().
  Step receive(const Packet& packet, Turn& turn, Drop* drop);

  // For Qp::hold_nothing_back.
  void hold_nothing_back() {
    direct_policy_.set_local_peer(false);
    receiver_window_ = ReceiverWindow();
  }
  // For Qp::take_directly.
  [[nodiscard]] bool take_directly(const DirectAnswer& answer, Turn& turn);

  // A selective acknowledgement, from `psn` on.
  Drop on_sack(std::uint32_t psn, const Sack& sack, const Turn& turn);

  // For congestion control.
  [[nodiscard]] SendWindow& window() { return window_; }
  void limit_window(std::uint32_t bytes) { window_.limit(bytes >> mtu_shift_); }

  [[nodiscard]] std::uint32_t send_psn() const { return high_psn_; }
  [[nodiscard]] std::uint32_t unretired() const { return queue_.unretired(); }
  // Whether every message that was begun has completed.
  [[nodiscard]] bool drained() const { return queue_.tail() == begun_index_; }

  // Any packet was received from the peer, request or response.
  void on_peer_alive(const Turn& turn) { retry_budget_.on_peer_alive(turn.ran()); }

  [[nodiscard]] Time deadline() const;
  void on_deadline(Turn& turn);

  // Out-of-order responses that the caller buffers for this requester; on_out_of_order_dropped():
  // it has dropped them.
  [[nodiscard]] std::uint32_t out_of_order() const { return out_of_order_.count(); }
  void on_out_of_order_dropped() { out_of_order_.clear(); }

  // A page fault that parked sending or receiving is resolved.
  void resume(Turn& turn);

 private:
  // What is `flatten` is compiled in one piece with all that it calls, for small messages; what is
  // `noinline` is where that ends.

  // requester.cc
  void forget_outstanding();
  [[gnu::noinline]] void announce_drained(Turn& turn);

  // requester_send.cc (inline: what nobody else calls)
  [[nodiscard]] bool sending() const;
  [[nodiscard]] inline std::uint32_t window_left() const;
  [[nodiscard]] inline bool window_open() const;
  // Whether what is sent again from the cursor on goes on by itself.
  [[nodiscard]] bool resends_freely() const;
  [[nodiscard]] inline bool may_begin(const SendEntry& entry) const;
  [[nodiscard]] inline bool held_for_receiver() const;
  [[nodiscard]] inline bool asks_receiver(const SendEntry& entry) const;
  [[nodiscard]] inline bool stream_has_work() const;
  inline bool next_ready(Turn& turn);
  inline void prepare(SendEntry& entry) const;
  bool refuse_impossible_read(SendEntry& entry) const;
  inline void begin(SendEntry& entry);
  std::uint32_t send_next(Turn& turn);
  std::uint32_t send_request(const SendEntry& entry, Turn& turn);
  std::uint32_t send_message(const SendEntry& entry, Turn& turn);
  [[nodiscard]] Headers message_headers(const SendEntry& entry, std::uint32_t first,
                                        std::uint32_t packets) const;
  struct PayloadPart {
    std::uint32_t offset, length;  // bytes of the message
    bool ack_request;              // its packet has AckReq, if the queue pair is reliable
  };
  std::uint32_t send_payload(const SendEntry& entry, const PayloadPart& part, Frame& frame,
                             FrameWriter& writer, Turn& turn);
  [[gnu::noinline]] std::uint32_t not_granted(Access access, Turn& turn);
  std::uint32_t refuse_begun(abi::WcStatus status, Failure failure, Turn& turn);
  [[nodiscard]] bool needs_ack_request(const SendEntry& entry) const;
  [[nodiscard]] SentFor sent_for(const SendEntry& entry) const;
  void sent(const SendEntry& entry, std::uint32_t psns, bool ack_request, const Turn& turn);
  void advance_cursor(const SendEntry& entry, std::uint32_t psns);

  // direct/requester_direct.cc
  // Nothing new is begun before what is outstanding is answered, so that it can go directly.
  [[nodiscard]] bool waits_to_go_directly() const {
    return direct_policy_.open() && unacked_psn_ != high_psn_;
  }
  inline std::uint32_t send_either_way(Turn& turn, std::uint32_t bytes_max);
  [[nodiscard]] static bool needs_frames(const SendEntry& entry);
  [[nodiscard]] bool may_go_directly(const SendEntry& entry, const Turn& turn) const;
  std::uint32_t send_directly(Turn& turn, std::uint32_t bytes_max);
  [[nodiscard]] bool locate_payload(const SendEntry& entry, std::uint32_t offset,
                                    std::uint32_t length, const Turn& turn, ByteRuns* runs);
  void took_directly(const SendEntry& entry, std::uint32_t packets, std::uint32_t length,
                     Turn& turn);

  // latency/requester_latency.cc
  [[nodiscard]] bool refresh_ring(const Turn& turn);
  void request_stamp(const Turn& turn);
  void time_begun(const Turn& turn);
  void time_done(const SendEntry& entry, const Turn& turn);
  void time_answered(Duration took);

  // unreliable_requester.cc
  void retire_sent(Turn& turn);
  std::uint32_t send_datagram(const SendEntry& entry, Turn& turn);

  // requester_read.cc
  bool take_read_credits(const SendEntry& entry, Turn& turn);
  std::uint32_t send_read(const SendEntry& entry, Turn& turn);
  std::uint32_t send_atomic(const SendEntry& entry, Turn& turn);
  [[nodiscard]] Headers read_headers(const SendEntry& entry, std::uint32_t offset,
                                     std::uint32_t length) const;
  [[nodiscard]] Headers atomic_headers(const SendEntry& entry) const;
  std::uint32_t send_bare_request(const SendEntry& entry, const Headers& headers,
                                  std::uint32_t psns, Turn& turn);

  // requester_extension.cc
  std::uint32_t send_atomic_write(const SendEntry& entry, Turn& turn);
  std::uint32_t send_flush(const SendEntry& entry, Turn& turn);

  // requester_local.cc
  bool execute_local(Turn& turn);
  static WindowChange change_window(const SendEntry& entry, const KeyUser& user, const Turn& turn);

  // completer.cc
  [[nodiscard]] bool outstanding(std::uint32_t psn) const;
  [[nodiscard]] bool acknowledge_before(std::uint32_t end_psn, Turn& turn);
  void retire_oldest(Turn& turn);
  void settle_answered(Turn& turn);
  void window_acknowledged(std::uint32_t packets, const Turn& turn);
  [[gnu::noinline]] void progressed(std::uint32_t unacked_psn_before, const Turn& turn);
  void start_counters_afresh();
  [[gnu::noinline]] void complete_oldest(abi::WcStatus status, Failure failure, Turn& turn);
  void fail_oldest(abi::WcStatus status, Failure failure, Turn& turn);
  [[gnu::noinline]] void fail_refused(Turn& turn);

  // report.cc
  void report_oldest(abi::WcStatus status, Failure failure, Turn& turn) const;
  void report_ring(Turn& turn) const;
  void report_flushed(std::uint32_t count, Turn& turn) const;

  // completer_ack.cc, completer_nak.cc
  Step on_acknowledge(const Packet& packet, Turn& turn, Drop* drop);
  Step on_rnr_nak(const Packet& packet, std::uint8_t timer_code, Turn& turn, Drop* drop);
  [[nodiscard]] bool spares_rnr_retry();
  Step on_nak(const Packet& packet, std::uint8_t code, Turn& turn, Drop* drop);
  // completer_read.cc
  Step on_read_response(const Packet& packet, Turn& turn, Drop* drop);
  Step on_atomic_acknowledge(const Packet& packet, Turn& turn, Drop* drop);
  Step take_answer(const std::byte* bytes, std::uint32_t offset, std::uint32_t length, Turn& turn);
  void take_answered(std::uint32_t psns, std::uint32_t length, Turn& turn);

  // requester.cc
  // Takes over what depends on these attributes of the queue pair (kQpMask...).
  void configure(std::uint32_t mask);

  // retransmit.cc
  void arm_timer(Time now);
  void move_cursor_to_unacked();
  void retry(Turn& turn);
  void reduce_window();
  bool retry_early(Turn& turn);
  void retry_implied(Turn& turn);
  void wait_for_receiver(Duration duration, Turn& turn);
  void wait_for_busy_peer(Duration duration, Turn& turn);

  // requester_receiver.cc
  void receiver_not_ready();
  [[gnu::noinline]] void receiver_took();
  [[nodiscard, gnu::noinline]] bool beyond_receiver_window() const;

  // requester_repair.cc
  [[nodiscard]] std::uint32_t index_of(std::uint32_t psn) const;
  std::uint32_t send_holes(Turn& turn, std::uint32_t bytes_max);
  std::uint32_t send_hole(const Hole& hole, Turn& turn);
  [[nodiscard]] std::uint32_t oldest_count() const;
  void on_silence(Turn& turn);
  void probe();
  void on_sequence_nak(Turn& turn);
  void on_ack_after_single_resend();
  void resend_all();

  // selective_acks.cc
  std::uint32_t send_sack_request(Turn& turn);
  bool take_sack_of(const SendEntry& entry, std::uint32_t psn, const Sack& sack);
  void add_sack_hole(std::uint32_t psn, const SendEntry& entry, std::uint32_t newest);

  // requester_gap.cc
  Step answer_missing(const Packet& packet, Turn& turn, Drop* drop);
  void request_missing();
  void request_missing_of(const SendEntry& entry, std::uint32_t from);

  SackScoreboard scoreboard_;
  // What each message needs, in lines side by side: from the end of that to the first words of
  // repair_.
  static constexpr std::size_t kHotBytes = 6 * kCacheLine;
  Qp& qp_;
  std::uint32_t unacked_psn_ = 0;
  std::uint32_t cursor_psn_ = 0;
  std::uint32_t high_psn_ = 0;
  std::uint32_t next_psn_ = 0;
  std::uint32_t cursor_index_ = 0;        // the entry that holds cursor_psn_
  std::uint32_t begun_index_ = 0;         // entries before it have PSNs
  std::uint32_t reads_out_ = 0;           // READs and atomics begun and not done
  std::uint32_t read_frames_out_ = 0;     // READ responses asked for since the cursor went back
  std::uint32_t read_frames_wanted_ = 0;  // by the READ at begun_index_, which waits for room
  std::uint32_t ack_requested_psn_ = 0;   // the last one that an answer was requested for
  std::uint32_t window_reduced_psn_ = 0;  // unacked_psn_ at the last reduce_window(), or the first
  SendWindow window_;
  std::uint32_t mtu_shift_ = 0;
  RetryBudget retry_budget_;
  std::uint8_t rnr_retries_left_ = 0;
  bool draining_ = false;
  bool drained_announced_ = false;
  bool ack_requested_ = false;   // since the cursor or unacked_psn_ went elsewhere
  bool rnr_waiting_ = false;     // until timer_, then from unacked_psn_ on again
  bool retried_early_ = false;   // without a timeout, since unacked_psn_ moved last
  bool loss_shown_ = false;      // by a gap, since the timer ran out last
  bool send_parked_ = false;     // memory of the entry at the cursor isn't resident
  bool receive_parked_ = false;  // memory for the response to unacked_psn_ isn't resident
  ReceiverWindow receiver_window_;
  std::uint32_t silent_timeouts_ = 0;  // since the last progress or NAK
  std::uint32_t hole_count_ = 0;       // not 0: the cursor stands at a hole of so many PSNs
  static constexpr std::uint64_t kNotExecuted = 0;
  std::uint64_t local_grace_ = kNotExecuted;  // of the local operation that was executed last
  Time timer_ = kNever;
  Duration timeout_ = 0;  // 0: none
  RoundTripTimer round_trip_;
  DirectPolicy direct_policy_;
  MessageTimer message_timer_;
  SendQueue queue_;
  Repair repair_;
  // What acknowledgements of frames look at, too: from the end of out_of_order_ on.
  OutOfOrderPackets out_of_order_;
  std::uint32_t out_of_order_end_ = 0;  // behind the newest of them
  std::uint32_t probe_end_ = 0;         // what was probed last ends before it
  bool probed_ = false;                 // probe_end_ means something
  std::uint32_t flushed_ = 0;           // and not reported yet
  PeerBuffering peer_buffering_;
  bool rnr_spared_ = false;           // rnr_spared_psn_ means something
  std::uint32_t rnr_spared_psn_ = 0;  // the last packet whose RNR NAK took no retry
};

}  // namespace uroce
