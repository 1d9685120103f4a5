#include "dataplane/engine/notices.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>

#include "dataplane/base/check.h"

namespace uroce {

Notices::Notices() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  UROCE_CHECK(descriptor_ >= 0);
}

Notices::~Notices() {
  Notice* notice = nullptr;
  while (ring_.dequeue(&notice, 1) == 1) {
    delete notice;
  }
  close(descriptor_);
}

void Notices::announce(AsyncEvent event, std::uint32_t object) {
  put(Notice{.kind = Notice::Kind::kAsyncEvent, .event = event, .object = object});
}

// Bounded like frames: a program that fails in a loop must not hide another's events.
void Notices::report(const FailureReport& report) {
  if (ring_.room() <= kEventsReserve) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  put(Notice{.kind = Notice::Kind::kFailure, .failure = report});
}

bool Notices::take(std::uint16_t port, std::span<const std::byte> frame) {
  return put_frame(Notice::Kind::kFrame, port, frame);
}

bool Notices::take_mad(std::uint16_t port, std::span<const std::byte> frame) {
  return put_frame(Notice::Kind::kMad, port, frame);
}

bool Notices::put_frame(Notice::Kind kind, std::uint16_t port, std::span<const std::byte> frame) {
  if (ring_.room() <= kEventsReserve) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  return put(Notice{.kind = kind, .port = port, .bytes = {frame.begin(), frame.end()}});
}

bool Notices::put(Notice notice) {
  auto owned = std::make_unique<Notice>(std::move(notice));
  Notice* const pointer = owned.get();
  if (ring_.enqueue(&pointer, 1) == 0) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  static_cast<void>(owned.release());  // The ring's now.
  const std::uint64_t one = 1;
  // Fails only if the counter is about to overflow, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
  return true;
}

bool Notices::next(Notice* notice) {
  Notice* pointer = nullptr;
  if (ring_.dequeue(&pointer, 1) == 0) {
    // Empty: take the descriptor's readiness back, then look again for what came meanwhile.
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = read(descriptor_, &count, sizeof count);
    if (ring_.dequeue(&pointer, 1) == 0) {
      return false;
    }
  }
  const std::unique_ptr<Notice> owned(pointer);
  *notice = std::move(*owned);
  return true;
}

}  // namespace uroce
