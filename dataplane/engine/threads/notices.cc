#include "dataplane/engine/threads/notices.h"

#include <functional>
#include <memory>
#include <string_view>

#include "base/check.h"

namespace uroce {
namespace {

// A flooding sender can choose its group, but gets at most a quarter with each.
std::uint8_t group_of(std::span<const std::byte> sender) {
  const std::string_view bytes(reinterpret_cast<const char*>(sender.data()), sender.size());
  return static_cast<std::uint8_t>(std::hash<std::string_view>{}(bytes) % Notices::kGroups);
}

// An event as stored in its ring.
void* packed(AsyncEvent event, std::uint32_t object) {
  static_assert(sizeof(void*) == sizeof(std::uint64_t));
  const std::uint64_t bits = std::uint64_t{object} << 8U | static_cast<std::uint8_t>(event);
  return reinterpret_cast<void*>(bits);
}

}  // namespace

Notices::~Notices() {
  Notice* notice = nullptr;
  while (ring_.dequeue(&notice, 1) == 1) {
    delete notice;
  }
}

std::uint32_t Notices::limit(Notice::Kind kind) {
  static_assert(kFramesMax + kMadsMax + kFailuresMax <= kNoticesMax);
  static_assert(static_cast<std::size_t>(Notice::Kind::kAsyncEvent) == kKinds);
  switch (kind) {
    case Notice::Kind::kFrame:
      return kFramesMax;
    case Notice::Kind::kMad:
      return kMadsMax;
    case Notice::Kind::kFailure:
      return kFailuresMax;
    case Notice::Kind::kAsyncEvent:
      break;
  }
  return 0;  // kAsyncEvent isn't in that ring
}

// Reserves a place for a notice of this kind, before anything is allocated for it.
bool Notices::reserve(Notice::Kind kind, std::uint8_t group) {
  std::atomic<std::uint32_t>& of_group = waiting_of_group_[kind][group];
  std::atomic<std::uint32_t>& of_all = waiting_[kind];
  if (of_group.fetch_add(1, std::memory_order_acquire) < limit(kind) / kGroupShare) {
    if (of_all.fetch_add(1, std::memory_order_acquire) < limit(kind)) {
      return true;
    }
    of_all.fetch_sub(1, std::memory_order_relaxed);
  }
  of_group.fetch_sub(1, std::memory_order_relaxed);
  dropped_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

void Notices::announce(AsyncEvent event, std::uint32_t object) {
  void* const element = packed(event, object);
  if (events_.enqueue(&element, 1) == 0) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  signal();
}

void Notices::report(const FailureReport& report) {
  const auto group = static_cast<std::uint8_t>(report.owner % kGroups);
  if (reserve(Notice::Kind::kFailure, group)) {
    put(Notice{.kind = Notice::Kind::kFailure, .group = group, .failure = report});
  }
}

bool Notices::take(std::uint16_t port, std::span<const std::byte> frame) {
  constexpr std::size_t kStationAt = 6, kStation = 6;  // the Ethernet source address
  const bool whole = frame.size() >= kStationAt + kStation;
  return put_frame(Notice::Kind::kFrame, port, frame,
                   whole ? frame.subspan(kStationAt, kStation) : frame);
}

bool Notices::take_mad(std::uint16_t port, std::span<const std::byte> frame, const Gid& sender) {
  const Gid host = host_of(sender);
  return put_frame(Notice::Kind::kMad, port, frame, std::as_bytes(std::span(host.bytes)));
}

bool Notices::put_frame(Notice::Kind kind, std::uint16_t port, std::span<const std::byte> frame,
                        std::span<const std::byte> sender) {
  const std::uint8_t group = group_of(sender);
  if (!reserve(kind, group)) {
    return false;
  }
  put(Notice{.kind = kind, .port = port, .group = group, .bytes = {frame.begin(), frame.end()}});
  return true;
}

// REQUIRES: a place was reserved.
void Notices::put(Notice notice) {
  Notice* const pointer = std::make_unique<Notice>(std::move(notice)).release();
  UROCE_CHECK(ring_.enqueue(&pointer, 1) == 1);  // the places of all kinds together fit
  signal();
}

void Notices::signal() {
  if (!signalled_.exchange(true, std::memory_order_acq_rel)) {
    event_.ring();
  }
}

bool Notices::next(Notice* notice) {
  if (!dequeue(notice)) {
    // Empty: clear the descriptor's readiness, then check again for notices that arrived meanwhile.
    event_.clear();
    signalled_.exchange(false, std::memory_order_acq_rel);
    if (!dequeue(notice)) {
      return false;
    }
    signal();  // there may be more, and the caller needn't call again at once
  }
  return true;
}

bool Notices::dequeue(Notice* notice) {
  event_next_ = !event_next_;
  return event_next_ ? dequeue_other(notice) || dequeue_event(notice)
                     : dequeue_event(notice) || dequeue_other(notice);
}

bool Notices::dequeue_event(Notice* notice) {
  void* element = nullptr;
  if (events_.dequeue(&element, 1) == 0) {
    return false;
  }
  const auto bits = reinterpret_cast<std::uint64_t>(element);
  *notice = Notice{.kind = Notice::Kind::kAsyncEvent,
                   .event = static_cast<AsyncEvent>(bits & 0xffU),
                   .object = static_cast<std::uint32_t>(bits >> 8U)};
  return true;
}

bool Notices::dequeue_other(Notice* notice) {
  Notice* pointer = nullptr;
  if (ring_.dequeue(&pointer, 1) == 0) {
    return false;
  }
  const std::unique_ptr<Notice> owned(pointer);
  waiting_[owned->kind].fetch_sub(1, std::memory_order_release);
  waiting_of_group_[owned->kind][owned->group].fetch_sub(1, std::memory_order_release);
  *notice = std::move(*owned);
  return true;
}

}  // namespace uroce
