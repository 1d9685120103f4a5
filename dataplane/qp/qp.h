#pragma once

// A queue pair: the requester (sends what the program posted), the completer (takes what comes
// back) and the responder (answers the peer's requests). Sans-I/O: time and frames come in, frames
// and completions go out.
//
// Owned by control; used by one worker, its owner, for life, so there are no locks. Control changes
// it only in tasks between two of the owner's turns (Engine::call).
//
// Nothing is sent from receive(): a role changes its state, and transmit() sends what the state
// says. So a full port never loses an answer, and one acknowledgement covers a whole burst.

#include <cstdint>

#include "abi/ring.h"
#include "base/prefetch.h"
#include "dataplane/qp/address_table.h"
#include "dataplane/qp/attributes.h"
#include "dataplane/qp/congestion/congestion_settings.h"
#include "dataplane/qp/congestion/notification_point.h"
#include "dataplane/qp/congestion/rate_control.h"
#include "dataplane/qp/counters.h"
#include "dataplane/qp/latency/latencies.h"
#include "dataplane/qp/queues/completion_queue.h"
#include "dataplane/qp/queues/receive_queue.h"
#include "dataplane/qp/requester/requester.h"
#include "dataplane/qp/responder/responder.h"
#include "dataplane/qp/responder/xrc_domain.h"
#include "dataplane/qp/turn.h"
#include "dataplane/wire/build.h"

namespace uroce {

struct QpConfig {
  // What each message needs: a line.
  std::uint32_t qpn = 0;
  QpType type = QpType::kRc;
  bool signal_all = false;  // sq_sig_all
  std::uint16_t port = 0;   // index of the port it sends by
  PdId pd = 0;
  // The number of its user's account. Users take turns first, then each one's queue pairs.
  std::uint64_t user = 0;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  ReceiveQueue* receive_queue = nullptr;  // own or shared; nullptr: none
  bool receive_queue_shared = false;
  bool measures_latency = true;
  std::uint32_t worker = 0;                  // its owner
  abi::RingControl* send_control = nullptr;  // the send ring, in memory shared with the program

  const std::byte* send_entries = nullptr;
  // Its frames share links and queues with others': they say that it listens to marks (ECT(0)).
  bool shares_network = false;
  std::uint32_t doorbell_slot = 0;
  std::uint64_t owner = 0;  // whatever control knows its program by; comes back in reports
  std::uint32_t send_sge_max = 1;
  std::uint32_t inline_max = 0;        // bytes
  std::uint32_t send_entry_count = 0;  // a power of two
  std::uint32_t send_stride = 0;
  const AddressTable* addresses = nullptr;  // UD: of the session
  // XRC receive: the domain as the owner sees it. Such a queue pair has no queues of its own.
  const XrcDomain* xrc_domain = nullptr;
  const CongestionSettings* congestion = &kDefaultCongestion;  // outlives it

  // Whether the peer acknowledges. Else messages can get lost (IBTA vol. 1, 9.8).
  [[nodiscard]] bool reliable() const { return type != QpType::kUc && type != QpType::kUd; }
};
static_assert(offsetof(QpConfig, send_control) + sizeof(abi::RingControl*) == kCacheLine);

struct MemoryScope;

class Qp {
 public:
  // Work requests of each queue that are flushed at a time: a program may bring all of its queue
  // pairs into ERR at once, and the turn that finds them is everybody's.
  static constexpr std::uint32_t kFlushMax = 64;

  explicit Qp(const QpConfig& config);
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] const QpConfig& config() const { return config_; }
  [[nodiscard]] const QpAttributes& attributes() const { return attributes_; }
  [[nodiscard]] QpState state() const { return attributes_.state; }
  [[nodiscard]] const RoceCounters& counters() const { return counters_; }
  [[nodiscard]] const Latencies& latencies() const { return latencies_; }
  // Work requests to send that are posted and not done.
  [[nodiscard]] std::uint32_t unretired() const { return requester_.unretired(); }
  // The PSN that the peer's next request must have.
  [[nodiscard]] std::uint32_t expected_psn() const { return responder_.expected_psn(); }
  // The PSN of the next request that is sent for the first time.
  [[nodiscard]] std::uint32_t send_psn() const { return requester_.send_psn(); }
  // In SQD, and something that was begun before isn't done yet.
  [[nodiscard]] bool draining() const;
  [[nodiscard]] const RateControl& rate() const { return rate_; }

  // Takes the attributes in `mask` and makes the transition to attributes.state if the mask has it.
  // To RESET: forgets everything. To ERR: completes everything posted with kWrFlushErr, what is
  // beyond kFlushMax in later turns. To SQD: stops taking new requests. REQUIRES: control has
  // validated the transition.
  void modify(const QpAttributes& attributes, std::uint32_t mask, Turn& turn);

  // A parsed frame that is for this queue pair. Requests go to the responder, the rest to the
  // completer; packets that don't suit type or state are dropped under *drop.
  Step receive(const Frame& frame, Turn& turn, Drop* drop);

  // Direct transfers with the local peer (direct/README.md). is_local_peer(): each is the other's
  // peer, by number and by address. execute_directly(): executes a request of the peer; false if it
  // has to be sent as frames. take_directly(): takes an answer of the peer; false likewise.
  [[nodiscard]] bool is_local_peer(const Qp& other) const;
  [[nodiscard]] [[gnu::noinline]] bool execute_directly(const Request& request, Turn& turn);
  [[nodiscard]] bool take_directly(const DirectAnswer& answer, Turn& turn) {
    const bool took = requester_.take_directly(answer, turn);
    turn.local_peer_answered |= took;
    return took;
  }

  // Sends at most about `bytes_max` bytes of frames; answers and requests get the same share while
  // there are both. Returns the bytes sent. Stops when turn.tx has no room.
  std::uint32_t transmit(Turn& turn, std::uint32_t bytes_max);

  // What is posted goes with the next transmit(): it waits neither to go to a local peer without
  // frames, nor for the peer to be ready to receive.
  void hold_nothing_back() { requester_.hold_nothing_back(); }

  // Prefetch what sending, or processing what was received, will access, if it is soon this queue
  // pair's turn; then, once that is cached, the work request to be sent next.
  void prefetch_sending() const {
    prefetch_common();
    prefetch_line_to_write(&answers_ahead_);
    requester_.prefetch();
    responder_.prefetch_answers();
  }
  void prefetch_receiving() const {
    prefetch_common();
    prefetch_line_to_write(&answers_ahead_);
    prefetch_line(&attributes_.path.destination_gid);
    requester_.prefetch();
    prefetch_responding();
  }
  // What execute_directly() looks at.
  void prefetch_executing() const {
    prefetch_common();
    requester_.prefetch_retry_budget();
    prefetch_responding();
  }
  void prefetch_work() const { requester_.prefetch_work(); }
  void prefetch_latencies() const {
    if (!requester_.times_none()) {
      latencies_.prefetch();
    }
  }

  // Whether transmit() would send something now (given room in turn.tx).
  [[nodiscard]] bool has_work() const;

  // Whether there is a READ, or an atomic, that was begun and isn't done, or that waits for room.
  [[nodiscard]] bool reads() const { return requester_.reads(); }
  // Whether a doorbell or a deadline has work requests flushed, instead of what they do otherwise.
  [[nodiscard]] bool flushes() const {
    return attributes_.state == QpState::kErr || attributes_.state == QpState::kSqe;
  }
  // By the deadline, unless a flush is due already: whoever waits longest comes first.
  void flush_later(Time now) { next_flush_ = std::min(next_flush_, now); }
  // Whether an acknowledgement or a READ response is due to the peer.
  [[nodiscard]] bool answers_due() const { return responder_.has_work(); }

  // Whether transmit() would send a request of ours.
  [[nodiscard]] bool requests_due() const { return !held_back_ && requester_.has_work(); }

  // READ responses that are outstanding.
  [[nodiscard]] std::uint32_t read_frames_out() const { return requester_.read_frames_out(); }
  // The responses of the READ that waits for turn.read_credits; 0: none waits. reads_may_go() lets
  // it try again.
  [[nodiscard]] std::uint32_t read_frames_wanted() const { return requester_.read_frames_wanted(); }
  void reads_may_go() { requester_.reads_may_go(); }

  // The program rang: it may have posted to the send queue. (In ERR, posted work is flushed here.)
  void on_doorbell(Turn& turn);

  // The earliest time at which on_deadline() must be called (acknowledgement timeout, RNR wait, the
  // rest of what is to be flushed); kNever if none.
  [[nodiscard]] Time deadline() const;
  void on_deadline(Turn& turn);

  // A page fault that parked a role was resolved (or failed): go on.
  void resume(Turn& turn);
  // What had parked has been received since, unless it parks again.
  void caught_up() { responder_.caught_up(); }

  // XRC receive: the domain's shared receive queue of this number is about to vanish.
  void forget_srq(std::uint32_t number);
  // XRC receive: the number of the queue that the last request was for; 0: there was none.
  [[nodiscard]] std::uint32_t last_srq() const { return responder_.last_srq(); }

  // The outcome of the fault that a role raised with this ticket; resume() follows. If it isn't
  // kGranted, the role's next access to `failed_page` fails with it.
  void settle(FaultRole role, std::uint32_t ticket, Access outcome, std::uint64_t failed_page);

  // A copy through /proc/PID/mem for a role is done; resume() follows.
  void take_copy(std::unique_ptr<ProcMemCopy> copy);

  // Whether a request is a duplicate of an executed one, which accesses no memory but that of its
  // answer.
  [[nodiscard]] bool repeats(const Packet& request) const { return responder_.repeats(request); }
  // More requests wait for memory than allowed: sends an RNR NAK for `psn`, or asks for it later.
  void busy(std::uint32_t psn, const Turn& turn) { responder_.busy(psn, turn); }
  // A request that was parked, and partly executed, was dropped.
  void on_parked_dropped(Turn& turn) { responder_.on_parked_dropped(turn); }

  // Out-of-order frames that are buffered for the role that takes requests, or responses;
  // on_out_of_order_dropped(): they were all released.
  [[nodiscard]] std::uint32_t out_of_order(bool requests) const {
    return requests ? responder_.out_of_order() : requester_.out_of_order();
  }
  void on_out_of_order_dropped();

  // For the roles.

  // The memory that a role may reach; its faults come back to it.
  [[nodiscard]] MemoryScope memory(FaultRole role, const Turn& turn);

  // A fatal error: moves to ERR, flushes both queues, announces `event` if there is one. The
  // calling role has already completed the failed work request.
  void fail(Turn& turn, AsyncEvent event);
  void fail(Turn& turn);
  // Unreliable: a work request of the send queue failed. To SQE: the send queue is flushed until
  // the program goes back to RTS, receiving goes on (IBTA vol. 1, 10.3.1.1.7).
  void fail_sending(Turn& turn);
  // Pushes a completion and remembers that its queue is to be flushed.
  static void complete(CompletionQueue& queue, const abi::Cqe& cqe, bool solicited, Turn& turn);

 private:
  friend class Requester;
  friend class Responder;
  // The first line of each: what a message needs of it is there.
  void prefetch_common() const {
    prefetch_line(&config_);
    prefetch_line(&attributes_);
    prefetch_line_to_write(&counters_);
  }
  void prefetch_responding() const {
    responder_.prefetch_receiving();
    prefetch_line(&fault_slots_[FaultRole::kResponder]);
  }
  void take_attributes(const QpAttributes& from, std::uint32_t mask);
  [[nodiscard]] Drop admit(const Packet& packet) const;
  [[nodiscard]] Drop admit_kind(const OpcodeInfo& info) const;
  [[nodiscard]] bool expects(const Gid& source, const Gid& destination) const;
  [[nodiscard]] Drop admit_from(const Packet& packet) const;
  // selective_acks.cc
  Drop on_sack_packet(const Packet& packet, Turn& turn);
  // congestion.cc
  [[nodiscard]] Drop admit_outside_sequence(const Packet& packet) const;
  Drop on_notification(const Packet& packet, Turn& turn);
  std::uint32_t send_notification(Turn& turn);
  std::uint32_t transmit_limited(Turn& turn, std::uint32_t bytes_max);
  void note_marked(Time now);
  std::uint32_t transmit_all(Turn& turn, std::uint32_t bytes_max);
  std::uint32_t transmit_both(Turn& turn, std::uint32_t bytes_max);
  std::uint32_t send_small(const FrameTemplate& path, const Headers& headers,
                           std::span<const std::byte> payload, Turn& turn);
  void flush(Turn& turn);
  void finish_sqe(Turn& turn);
  void forget_faults();

  // What each message needs comes first, and the roles begin with theirs: of ten thousand queue
  // pairs none is in the cache when its turn comes, so that lines are what it costs.
  QpConfig config_;
  QpAttributes attributes_;
  // Bytes by which the responder has sent more than the requester, since both have had something to
  // send; about a frame at most.
  alignas(kCacheLine) std::int32_t answers_ahead_ = 0;
  std::uint16_t ip_id_ = 0;   // of the next frame
  bool held_back_ = false;    // until rate_.due(): nothing but acknowledgements may be sent
  Time next_flush_ = kNever;  // there is more to flush
  Time last_sent_ = 0;
  NotificationPoint notification_point_;
  RateControl rate_;
  alignas(kCacheLine) Requester requester_;
  alignas(kCacheLine) Responder responder_;
  alignas(kCacheLine) RoceCounters counters_;
  alignas(kCacheLine) Latencies latencies_;
  static_assert(offsetof(RoceCounters, direct_bytes) < kCacheLine);
  static_assert(sizeof(Latencies) == kCacheLine);
  FrameTemplate frame_template_;
  FaultSlots fault_slots_{};
};

}  // namespace uroce
