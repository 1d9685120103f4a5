#include "apps/replay/rings.h"

#include <cstring>

#include "base/check.h"

namespace uroce {

std::optional<abi::Cqe> CompletionRing::poll() {
  const abi::Cqe& entry = entries[consumer_ & (entries.size() - 1)];
  if (!abi::is_written(entry, consumer_)) {
    return std::nullopt;
  }
  const abi::Cqe cqe = entry;
  ++consumer_;
  control.ring.consumer.value.store(consumer_, std::memory_order_release);
  if (observer != nullptr) {
    observer(cqe.status);
  }
  return cqe;
}

std::vector<abi::Cqe> CompletionRing::poll_all() {
  std::vector<abi::Cqe> all;
  while (const std::optional<abi::Cqe> cqe = poll()) {
    all.push_back(*cqe);
  }
  return all;
}

WorkRing::WorkRing(std::uint32_t count, std::uint32_t stride_bytes)
    : entries(std::size_t{count} * stride_bytes), entry_count(count), stride(stride_bytes) {}

std::byte* WorkRing::slot() {
  UROCE_CHECK(waiting() < entry_count);
  return entries.data() + std::size_t{producer_ & (entry_count - 1)} * stride;
}

void WorkRing::publish() {
  ++producer_;
  // Pairs with the daemon's acquire load before it reads the entry.
  control.producer.value.store(producer_, std::memory_order_release);
}

void WorkRing::publish_posted() {
  if (abi::wants_stamp(control) && clock != nullptr) {
    abi::give_stamp(control, producer_, 1, clock());
  }
  publish();
}

std::uint32_t WorkRing::waiting() const {
  return producer_ - control.consumer.value.load(std::memory_order_acquire);
}

void WorkRing::post_receive(std::uint64_t wr_id, std::span<const abi::Sge> sges) {
  std::byte* to = slot();
  const abi::RecvWr head{
      .wr_id = wr_id, .sge_count = static_cast<std::uint32_t>(sges.size()), .reserved = 0};
  std::memcpy(to, &head, sizeof(head));
  if (!sges.empty()) {
    std::memcpy(to + abi::kRecvSgeOffset, sges.data(), sges.size_bytes());
  }
  publish();
}

void WorkRing::post_send(const abi::SendWr& request, std::span<const abi::Sge> sges) {
  std::byte* to = slot();
  abi::SendWr head = request;
  head.payload_count = static_cast<std::uint16_t>(sges.size());
  std::memcpy(to, &head, sizeof(head));
  if (!sges.empty()) {
    std::memcpy(to + abi::kSendPayloadOffset, sges.data(), sges.size_bytes());
  }
  publish_posted();
}

void WorkRing::post_inline(const abi::SendWr& request, std::span<const std::byte> bytes) {
  std::byte* to = slot();
  abi::SendWr head = request;
  head.flags = static_cast<std::uint8_t>(head.flags | abi::kInline);
  head.payload_count = static_cast<std::uint16_t>(bytes.size());
  std::memcpy(to, &head, sizeof(head));
  if (!bytes.empty()) {
    std::memcpy(to + abi::kSendPayloadOffset, bytes.data(), bytes.size());
  }
  publish_posted();
}

}  // namespace uroce
