#pragma once

// The daemon's side of a send queue: the consumer of the ring in which the program posts send work
// requests, and the daemon's private copies of them.
//
// The program's ring can't be trusted: each entry is copied once, only the bytes in use, and the
// copy is validated. Later changes by the program have no effect. An entry stays in the private
// array, from which it is retransmitted, until it is retired; only then the program learns that the
// slot is free.
//
// Indices run freely, and tail <= head <= posted: [tail, head) is the private array, [head, posted)
// was seen in the ring and isn't copied yet. Belongs to the queue pair's worker.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "abi/completion.h"
#include "abi/operations.h"
#include "abi/post_stamp.h"
#include "abi/ring.h"
#include "abi/work_request.h"
#include "base/memory/huge_slabs.h"
#include "base/prefetch.h"
#include "dataplane/qp/attributes.h"
#include "dataplane/qp/failure.h"
#include "dataplane/wire/psn.h"

namespace uroce {

struct QpConfig;

// The progress of the requester with an entry.
enum class SendStage : std::uint8_t {
  kWaiting,  // no packet was sent
  kBegun,    // has its PSNs; some packets may be sent
  kRefused,  // can't be sent: completes with `status` once all earlier work has completed
};

// The operations that complete with their response, a bit each: READs, atomics and annex A19's
// operations. An acknowledgement isn't enough for them.
inline constexpr std::uint32_t kAnswered = abi::operations(
    abi::WrOpcode::kRdmaRead, abi::WrOpcode::kAtomicCmpAndSwp, abi::WrOpcode::kAtomicFetchAndAdd,
    abi::WrOpcode::kAtomicWrite, abi::WrOpcode::kFlush);

// The kinds of SEND, likewise: they take a receive work request of the peer with their first
// packet.
inline constexpr std::uint32_t kSends =
    abi::operations(abi::WrOpcode::kSend, abi::WrOpcode::kSendWithImm, abi::WrOpcode::kSendWithInv);

// The daemon's copy of a send work request: one cache line. The scatter/gather list or the inline
// bytes lie elsewhere (SendQueue::sges, SendQueue::inline_bytes).
struct SendEntry {
  std::uint64_t wr_id;
  std::uint64_t remote_address;
  union {
    struct {
      std::uint64_t compare_add;
      std::uint64_t swap;
    } atomic;
    struct {
      std::uint64_t length;
      std::uint32_t lkey;
      std::uint32_t access;
    } bind;
    struct {
      std::uint64_t length;
      std::uint32_t placement;
      std::uint32_t selectivity;
    } flush;
    struct {
      std::uint32_t ah, qpn, qkey;
    } datagram;
  };
  std::uint32_t length;        // bytes of the message
  std::uint32_t first_psn;     // valid from kBegun on
  std::uint32_t packet_count;  // PSNs that it takes
  std::uint32_t rkey;
  std::uint32_t immediate;  // as on the wire, or the rkey to invalidate or to bind in host order
  abi::WrOpcode opcode;     // less than 32, whatever was posted
  std::uint8_t flags;       // abi::SendFlags
  std::uint8_t sge_count;
  SendStage stage;
  abi::WcStatus status;      // kRefused: why
  bool in_parts;             // READ: a part from inside its answer was asked for again
  std::uint16_t vendor_err;  // kRefused: which check failed
  std::uint32_t xrc_srqn;    // XRC: the shared receive queue that it is for

  [[nodiscard]] bool wants_response() const {
    return (kAnswered >> (static_cast<std::uint32_t>(opcode) % 32) & 1U) != 0;
  }
  [[nodiscard]] bool is_send() const {
    return (kSends >> (static_cast<std::uint32_t>(opcode) % 32) & 1U) != 0;
  }
  [[nodiscard]] bool atomic_result() const {
    return opcode == abi::WrOpcode::kAtomicCmpAndSwp || opcode == abi::WrOpcode::kAtomicFetchAndAdd;
  }
  // Answered by a READ response without data.
  [[nodiscard]] bool extension() const {
    return opcode == abi::WrOpcode::kAtomicWrite || opcode == abi::WrOpcode::kFlush;
  }
  // What is done right here, without a packet.
  [[nodiscard]] bool local() const {
    return opcode == abi::WrOpcode::kLocalInv || opcode == abi::WrOpcode::kBindMw;
  }
  [[nodiscard]] bool has(abi::SendFlags flag) const { return (flags & flag) != 0; }

  // The PSN behind its last one; valid from kBegun on.
  [[nodiscard]] std::uint32_t end_psn() const { return psn_add(first_psn, packet_count); }

  // It can't be sent, and completes so in its turn.
  void refuse(abi::WcStatus why, Failure failure) {
    stage = SendStage::kRefused;
    status = why;
    vendor_err = static_cast<std::uint16_t>(failure);
  }
};
static_assert(sizeof(SendEntry) == 64);

class SendQueue {
 public:
  // Allocates all there will ever be. REQUIRES: the ring's memory outlives the queue.
  explicit SendQueue(const QpConfig& config);

  // Reads the program's index. False if it is invalid: the queue is broken.
  [[nodiscard]] bool refresh();

  // Copies the next posted entry and validates it; an invalid one is kRefused. False if refresh()
  // saw no further one.
  bool pull();

  [[nodiscard]] std::uint32_t tail() const { return tail_; }
  [[nodiscard]] std::uint32_t head() const { return head_; }
  [[nodiscard]] std::uint32_t posted() const { return posted_; }
  [[nodiscard]] bool has_posted() const { return posted_ != head_; }
  // The number of posted work requests, by the program's index, that aren't retired; at most the
  // size of the ring.
  [[nodiscard]] std::uint32_t unretired() const;

  // abi/post_stamp.h: asks the program when it posts next, and what it said last: anything.
  void request_stamp(std::uint32_t number) {
    if (control_ != nullptr) {
      abi::request_stamp(*control_, number);
    }
  }
  // REQUIRES: something was posted.
  [[nodiscard]] abi::PostStamp stamp() const { return abi::stamp_of(*control_); }

  // REQUIRES: index in [tail, head).
  [[nodiscard]] SendEntry& entry(std::uint32_t index) { return entries_[index & mask_]; }
  [[nodiscard]] const SendEntry& entry(std::uint32_t index) const {
    return entries_[index & mask_];
  }
  [[nodiscard]] std::span<const abi::Sge> sges(std::uint32_t index) const {
    return {reinterpret_cast<const abi::Sge*>(inline_bytes(index)), entry(index).sge_count};
  }
  [[nodiscard]] const std::byte* inline_bytes(std::uint32_t index) const {
    return tails_.get() + std::size_t{index & mask_} * tail_stride_;
  }

  // Brings the next posted entry towards the processor while refresh() reads the index. Only if the
  // program has rung: otherwise it is about to write there.
  void prefetch_next() const {
    prefetch_line(ring_entries_ + std::size_t{head_ & mask_} * ring_stride_);
  }
  // Brings the entry of this index towards the processor, or the place where pull() will put it,
  // and what pull() copies next.
  void prefetch(std::uint32_t index) const {
    prefetch_line_to_write(entries_.get() + (index & mask_));
    prefetch_line_to_write(inline_bytes(index));
    if (has_posted()) {  // else the program is about to write there
      prefetch_lines(ring_entries_ + std::size_t{head_ & mask_} * ring_stride_,
                     std::min<std::size_t>(ring_stride_, 2 * kCacheLine));
    }
  }

  // Retires the oldest entry.
  void retire() { ++tail_; }
  // Tells the program which slots are free; once a batch.
  void publish();
  // As publish(), as if the oldest entry were retired already. To be called before each completion:
  // a program that has polled it relies on the slots up to there.
  void publish_with_oldest();

  // Forgets what was posted so far, also what wasn't copied.
  void reset();

 private:
  void copy(std::uint32_t index);
  void measure(std::uint32_t index);

  abi::RingControl* control_;
  const std::byte* ring_entries_;
  std::uint32_t ring_stride_;
  std::uint32_t mask_;
  std::uint32_t tail_stride_;
  std::uint32_t sge_max_;
  std::uint32_t inline_max_;
  QpType type_;
  std::uint32_t tail_ = 0;
  std::uint32_t head_ = 0;
  std::uint32_t posted_ = 0;
  std::uint32_t published_ = 0;
  HugeSlabArray<SendEntry> entries_;
  HugeSlabArray<std::byte> tails_;
};

}  // namespace uroce
