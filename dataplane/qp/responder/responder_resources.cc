#include "dataplane/qp/responder/responder_resources.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"

namespace uroce {

void ResourceRing::resize(std::uint32_t limit) {
  if (limit == limit_) {
    return;
  }
  const std::uint32_t unanswered = pending_count_ == 0 ? 0 : head_ - cursor_;
  const std::uint32_t kept = std::max(std::min(count_, limit), unanswered);
  std::vector<Resource> slots(std::bit_ceil(std::max({limit, kept, 1U})));
  for (std::uint32_t back = 1; back <= kept; ++back) {
    slots[(head_ - back) & (slots.size() - 1)] = slot(head_ - back);
  }
  slots_ = std::move(slots);
  limit_ = limit;
  count_ = kept;
}

bool ResourceRing::full() const {
  if (count_ < limit_ || limit_ == 0) {
    return limit_ == 0;
  }
  const Resource& oldest = slot(head_ - limit_);
  return oldest.pending() && !oldest.replay;
}

void ResourceRing::push(const Resource& resource) {
  UROCE_CHECK(!full());
  // After resize() there may be more than the limit.
  for (; count_ >= limit_; --count_) {
    Resource& oldest = slot(head_ - count_);
    if (oldest.pending()) {
      answered(oldest);
    }
    if (cursor_ == head_ - count_) {
      ++cursor_;  // its slot may be the one that is filled now
    }
  }
  ++count_;
  if (pending_count_ == 0) {
    cursor_ = head_;
  }
  slot(head_) = resource;
  ++head_;
  ++pending_count_;
}

Resource* ResourceRing::find(std::uint32_t psn) {
  for (std::uint32_t back = 1; back <= count_; ++back) {
    Resource& resource = slot(head_ - back);
    if (psn_distance(resource.psn_first, psn) < resource.packets) {
      return &resource;
    }
  }
  return nullptr;
}

void ResourceRing::replay(Resource& resource, std::uint32_t packet, std::uint32_t length_end,
                          std::uint32_t packet_end) {
  if (!resource.pending()) {
    const auto slot = static_cast<std::uint32_t>(&resource - slots_.data());
    // The distance of the slot before head_; a ring rounded up to a power of two may hold more
    // slots than the limit, so the distance is taken modulo its size.
    const auto size = static_cast<std::uint32_t>(slots_.size());
    const std::uint32_t back = ((head_ - 1 - slot) & (size - 1)) + 1;
    if (pending_count_ == 0 || head_ - cursor_ < back) {
      cursor_ = head_ - back;
    }
    ++pending_count_;
    resource.replay = true;
    resource.packet_next = packet;
  } else if (packet_end <= resource.packet_next && !resource.patching()) {
    resource.patch_next = packet;
    resource.patch_end = packet_end;
    resource.patch_length_end = length_end;
    return;
  } else {
    // Some of it wasn't sent yet: nothing that the peer may still need is skipped.
    resource.packet_next = std::min(resource.packet_next, packet);
    length_end = std::max(length_end, resource.length_end);
    packet_end = std::max(packet_end, resource.packet_end);
  }
  resource.length_end = length_end;
  resource.packet_end = packet_end;
}

Resource* ResourceRing::next_pending() {
  if (pending_count_ == 0) {
    return nullptr;
  }
  while (!slot(cursor_).pending()) {
    ++cursor_;
  }
  return &slot(cursor_);
}

void ResourceRing::answered(Resource& resource) {
  resource.packet_next = resource.packet_end;
  resource.patch_next = resource.patch_end;
  --pending_count_;
}

void ResourceRing::clear_pending() {
  while (Resource* resource = next_pending()) {
    answered(*resource);
  }
}

}  // namespace uroce
