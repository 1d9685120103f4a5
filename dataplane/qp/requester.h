#pragma once

// The requester and the completer of a queue pair: two roles on one state, so one class. The
// requester turns posted work into packets; the completer takes what the peer answers and retires
// the work in order.
//
// The methods are spread over files by protocol event:
//   requester.cc         life cycle: start, drain, flush, reset
//   requester_send.cc    what to send next; SEND and WRITE packets
//   requester_read.cc    READ and atomic requests
//   completer.cc         steers responses; retires work in order
//   completer_ack.cc     acknowledgements
//   completer_nak.cc     RNR, sequence and fatal NAKs
//   completer_read.cc    READ responses and atomic acknowledgements
//   retransmit.cc        timeouts, going back, giving up
//
// PSNs, oldest first (all differences are below 2^23):
//
//   unacked_psn_ <= cursor_psn_ <= high_psn_ <= next_psn_
//
// [unacked, high) was sent and isn't acknowledged. The cursor is what is sent next: behind
// high_psn_ while packets are sent again, equal to it otherwise. next_psn_ is the first PSN of the
// next message; it is ahead of high_psn_ while a message is under way. unacked_psn_ lies in the
// oldest entry, since entries are retired as soon as they are done.

#include <cstdint>

#include "dataplane/base/time.h"
#include "dataplane/qp/send_queue.h"
#include "dataplane/qp/turn.h"
#include "dataplane/wire/packet.h"

namespace uroce {

class Qp;

class Requester {
 public:
  // Sent and not acknowledged: at most this many packets, and about this many bytes.
  static constexpr std::uint32_t kWindowPackets = 512;
  static constexpr std::uint32_t kWindowBytes = 1U << 20U;
  // Packets of a message after which an acknowledgement is asked for; a power of two, far below the
  // window so that a long message never stalls.
  static constexpr std::uint32_t kAckRequestEvery = 32;
  // PSNs that may be outstanding at all (IBTA vol. 1, 9.7.1): a READ takes one for each response.
  static constexpr std::uint32_t kPsnsOutstandingMax = 1U << 23U;
  static constexpr std::uint32_t kMessageBytesMax = 1U << 31U;

  explicit Requester(Qp& qp);

  // Takes over timeouts and window from the queue pair's attributes, after a modify.
  void configure();
  // RTR -> RTS: the next request gets this PSN.
  void start(std::uint32_t psn);
  // RTS -> SQD: begins no new message; kSqDrained is announced when all that was begun is done.
  void drain(Turn& turn);
  // SQD -> RTS.
  void undrain();
  // ERR: completes everything posted with kWrFlushErr, now and at each doorbell.
  void flush(Turn& turn);
  // RESET: forgets everything.
  void reset();

  void on_doorbell(Turn& turn);
  [[nodiscard]] bool has_work() const;
  std::uint32_t transmit(Turn& turn, std::uint32_t bytes_max);

  // A response or acknowledgement.
  Step receive(const Packet& packet, Turn& turn, Drop* drop);

  [[nodiscard]] Time deadline() const;
  void on_deadline(Turn& turn);

  void resume(Turn& turn);

 private:
  Qp& qp_;
  SendQueue queue_;
  std::uint32_t unacked_psn_ = 0;
  std::uint32_t cursor_psn_ = 0;
  std::uint32_t high_psn_ = 0;
  std::uint32_t next_psn_ = 0;
};

}  // namespace uroce
