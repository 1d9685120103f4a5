#include "dataplane/qp/queues/send_queue.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "abi/operations.h"
#include "base/check.h"
#include "dataplane/qp/failure.h"
#include "dataplane/qp/memory/memory.h"
#include "dataplane/qp/qp.h"
#include "dataplane/wire/limits.h"

namespace uroce {
namespace {

using abi::WcStatus;
using abi::WrOpcode;

bool is_message(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kSend:
    case WrOpcode::kSendWithImm:
    case WrOpcode::kSendWithInv:
    case WrOpcode::kRdmaWrite:
    case WrOpcode::kRdmaWriteWithImm:
      return true;
    default:
      return false;
  }
}

// Operands that only some operations have.
void take_operands(QpType type, const abi::SendWr& wr, SendEntry& entry) {
  if (type == QpType::kUd) {
    entry.datagram = {.ah = wr.ud.ah, .qpn = wr.ud.remote_qpn, .qkey = wr.ud.remote_qkey};
  } else if (wr.opcode == WrOpcode::kBindMw) {
    entry.bind = {.length = wr.bind.length, .lkey = wr.bind.lkey, .access = wr.bind.access};
  } else if (wr.opcode == WrOpcode::kFlush) {
    entry.flush = {.length = wr.flush.length,
                   .placement = wr.flush.placement,
                   .selectivity = wr.flush.selectivity};
  } else {
    entry.atomic = {.compare_add = wr.atomic.compare_add, .swap = wr.atomic.swap};
  }
}

// The range of a FLUSH has 32 bits on the wire.
void measure_flush(SendEntry& entry) {
  if (entry.opcode == WrOpcode::kFlush && entry.flush.length > UINT32_MAX) {
    entry.refuse(WcStatus::kLocLenErr, Failure::kSendTooLong);
  }
}

}  // namespace

SendQueue::SendQueue(const QpConfig& config)
    : control_(config.send_control),
      ring_entries_(config.send_entries),
      ring_stride_(config.send_stride),
      mask_(config.send_entry_count == 0 ? 0 : config.send_entry_count - 1),
      tail_stride_(config.send_entry_count == 0
                       ? 0
                       : config.send_stride - static_cast<std::uint32_t>(abi::kSendPayloadOffset)),
      sge_max_(config.send_sge_max),
      inline_max_(config.inline_max),
      type_(config.type) {
  if (control_ == nullptr) {
    return;  // a queue pair that never sends (an XRC target)
  }
  UROCE_CHECK(std::has_single_bit(config.send_entry_count));
  UROCE_CHECK(ring_stride_ >= abi::send_stride(sge_max_, inline_max_));
  entries_ = make_huge_slab_array<SendEntry>(config.send_entry_count);
  tails_ = make_huge_slab_array<std::byte>(std::size_t{config.send_entry_count} * tail_stride_);
}

bool SendQueue::refresh() {
  if (control_ == nullptr) {
    return true;
  }
  // Pairs with the program's release store after it has written the entries.
  const std::uint32_t posted = control_->producer.value.load(std::memory_order_acquire);
  if (posted - tail_ > mask_ + 1) {
    return false;
  }
  // An index that runs backwards is invalid as well: entries that were taken can't be unposted.
  if (posted - tail_ < head_ - tail_) {
    return false;
  }
  posted_ = posted;
  return true;
}

std::uint32_t SendQueue::unretired() const {
  if (control_ == nullptr) {
    return 0;
  }
  // None of the entries it covers is read, so nothing needs to be visible.
  const std::uint32_t posted = control_->producer.value.load(std::memory_order_relaxed);
  return std::min(posted - tail_, mask_ + 1);
}

bool SendQueue::pull() {
  if (head_ == posted_) {
    return false;
  }
  copy(head_);
  ++head_;
  return true;
}

void SendQueue::copy(std::uint32_t index) {
  const std::byte* posted = ring_entries_ + std::size_t{index & mask_} * ring_stride_;
  abi::SendWr wr;
  std::memcpy(&wr, posted, sizeof(wr));
  // From here on only the copy is used: the compiler must not read the ring again either.
  std::atomic_signal_fence(std::memory_order_seq_cst);

  SendEntry& entry = entries_[index & mask_];
  entry.wr_id = wr.wr_id;
  entry.remote_address = wr.remote_address;
  entry.length = 0;
  entry.first_psn = 0;
  entry.packet_count = 1;
  entry.rkey = wr.rkey;
  entry.immediate = wr.immediate;
  entry.opcode = wr.opcode;
  entry.flags = wr.flags;
  entry.sge_count = 0;
  entry.stage = SendStage::kWaiting;
  entry.status = WcStatus::kSuccess;
  entry.vendor_err = 0;
  entry.xrc_srqn = wr.remote_srqn;
  take_operands(type_, wr, entry);
  if (!abi::may_post(type_, wr.opcode)) {
    constexpr std::uint8_t kOpcodes = 32;
    if (static_cast<std::uint8_t>(wr.opcode) >= kOpcodes) {
      entry.opcode = WrOpcode::kSend;  // as its completion will report it
    }
    return entry.refuse(WcStatus::kLocQpOpErr, Failure::kSendOpcode);
  }
  if (entry.local() || wr.opcode == WrOpcode::kFlush) {
    return measure_flush(entry);  // no payload, whatever the program wrote
  }
  std::byte* tail = tails_.get() + std::size_t{index & mask_} * tail_stride_;
  const std::byte* posted_tail = posted + abi::kSendPayloadOffset;
  if (entry.has(abi::kInline)) {
    // The 8 bytes of an ATOMIC WRITE may always be inline: every entry has room for them.
    const bool word =
        wr.opcode == WrOpcode::kAtomicWrite && wr.payload_count == sizeof(std::uint64_t);
    if (!word && !is_message(wr.opcode)) {
      return entry.refuse(WcStatus::kLocQpOpErr, Failure::kSendLength);
    }
    if (!word && wr.payload_count > inline_max_) {
      return entry.refuse(WcStatus::kLocQpOpErr, Failure::kSendSges);
    }
    entry.length = wr.payload_count;
    std::memcpy(tail, posted_tail, wr.payload_count);
    return;
  }
  if (wr.payload_count > sge_max_) {
    return entry.refuse(WcStatus::kLocQpOpErr, Failure::kSendSges);
  }
  entry.sge_count = static_cast<std::uint8_t>(wr.payload_count);
  if (wr.payload_count == 1 && is_message(wr.opcode)) {  // most are
    abi::Sge sge;
    std::memcpy(&sge, posted_tail, sizeof(sge));
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as above
    std::memcpy(tail, &sge, sizeof(sge));
    if (sge.length > kMessageBytesMax) {
      return entry.refuse(WcStatus::kLocLenErr, Failure::kSendTooLong);
    }
    entry.length = sge.length;
    return;
  }
  std::memcpy(tail, posted_tail, wr.payload_count * sizeof(abi::Sge));
  measure(index);
}

void SendQueue::measure(std::uint32_t index) {
  SendEntry& entry = entries_[index & mask_];
  const std::uint64_t length = total_length(sges(index));
  if (entry.atomic_result()) {
    if (length < sizeof(std::uint64_t)) {
      return entry.refuse(WcStatus::kLocLenErr, Failure::kSendLength);
    }
    entry.length = sizeof(std::uint64_t);
    return;
  }
  if (entry.opcode == WrOpcode::kAtomicWrite && length != sizeof(std::uint64_t)) {
    return entry.refuse(WcStatus::kLocLenErr, Failure::kSendLength);
  }
  if (length > kMessageBytesMax) {
    return entry.refuse(WcStatus::kLocLenErr, Failure::kSendTooLong);
  }
  entry.length = static_cast<std::uint32_t>(length);
}

void SendQueue::publish() {
  if (published_ != tail_) {
    published_ = tail_;
    // Pairs with the program's acquire load before it overwrites the entries.
    control_->consumer.value.store(tail_, std::memory_order_release);
  }
}

void SendQueue::publish_with_oldest() {
  published_ = tail_ + 1;
  control_->consumer.value.store(published_, std::memory_order_release);
}

void SendQueue::reset() {
  if (control_ == nullptr) {
    return;
  }
  posted_ = control_->producer.value.load(std::memory_order_acquire);
  tail_ = posted_;
  head_ = posted_;
  publish();
}

}  // namespace uroce
