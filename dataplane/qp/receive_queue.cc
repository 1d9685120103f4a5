#include "dataplane/qp/receive_queue.h"

#include <cstring>

#include "dataplane/base/check.h"
#include "dataplane/base/spin_lock.h"

namespace uroce {

ReceiveQueue::ReceiveQueue(std::uint32_t handle, abi::RingControl* control,
                           const std::byte* entries, std::uint32_t entry_count,
                           std::uint32_t stride, std::uint32_t sge_max, bool shared)
    : handle_(handle),
      control_(control),
      entries_(entries),
      mask_(entry_count - 1),
      stride_(stride),
      sge_max_(sge_max),
      shared_(shared) {
  UROCE_CHECK(entry_count != 0 && (entry_count & mask_) == 0);
  UROCE_CHECK(sge_max <= kSgeMax && stride >= abi::recv_stride(sge_max));
}

ReceiveQueue::Take ReceiveQueue::take(ReceiveEntry* entry) {
  const LockWhen lock(shared_, lock_);
  if (broken_) {
    return Take::kBroken;
  }
  // Pairs with the program's release store after it has written the entry.
  const std::uint32_t waiting =
      control_->producer.value.load(std::memory_order_acquire) - consumer_;
  if (waiting == 0) {
    return Take::kEmpty;
  }
  const std::byte* source = entries_ + static_cast<std::size_t>(consumer_ & mask_) * stride_;
  abi::RecvWr head;
  std::memcpy(&head, source, sizeof(head));
  if (waiting > mask_ + 1 || head.sge_count > sge_max_) {
    broken_ = true;
    return Take::kBroken;
  }
  entry->wr_id = head.wr_id;
  entry->sge_count = head.sge_count;
  std::memcpy(entry->sges.data(), source + abi::kRecvSgeOffset, head.sge_count * sizeof(abi::Sge));
  ++consumer_;
  // Pairs with the program's acquire load before it overwrites the entry.
  control_->consumer.value.store(consumer_, std::memory_order_release);
  return Take::kTaken;
}

bool ReceiveQueue::empty() const {
  return control_->producer.value.load(std::memory_order_acquire) == consumer_;
}

void ReceiveQueue::reset() {
  const LockWhen lock(shared_, lock_);
  consumer_ = control_->producer.value.load(std::memory_order_acquire);
  control_->consumer.value.store(consumer_, std::memory_order_release);
  control_->consumer.bell_wanted.store(0, std::memory_order_relaxed);
  broken_ = false;
}

void ReceiveQueue::ask_for_doorbells() {
  // Pairs with the program's fence between publishing and looking here (abi/ring.h).
  control_->consumer.bell_wanted.store(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace uroce
