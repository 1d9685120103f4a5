#include "mmu/window.h"

#include "base/spin_lock.h"

namespace uroce {
namespace {

constexpr std::uint32_t kAccessChanging = kAccessRemoteWrite | kAccessRemoteAtomic;
constexpr std::uint32_t kAccessFlushing = kAccessFlushGlobal | kAccessFlushPersistent;

bool inside(const WindowBind& bind, const Region& region) {
  const std::uint64_t distance = bind.address - region.iova();
  return distance < region.length() && bind.length <= region.length() - distance;
}

}  // namespace

Window::Writing::Writing(std::atomic<std::uint32_t>& version) : version_(version) {
  std::uint32_t even = version_.load(std::memory_order_relaxed) & ~1U;
  // Acquire: pairs with the release of the writer before.
  SpinWait spin;
  while (!version_.compare_exchange_weak(even, even + 1, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
    even &= ~1U;
    spin.wait();
  }
  odd_ = even + 1;
}

Window::State Window::state() const {
  SpinWait spin;
  for (;;) {
    const std::uint32_t before = version_.load(std::memory_order_acquire);
    const State state{.key = key_.load(std::memory_order_acquire),
                      .qpn = qpn_.load(std::memory_order_acquire),
                      .access = access_.load(std::memory_order_acquire),
                      .address = address_.load(std::memory_order_acquire),
                      .length = length_.load(std::memory_order_acquire),
                      .region = region_.load(std::memory_order_acquire)};
    if ((before & 1U) == 0 && version_.load(std::memory_order_relaxed) == before) {
      return state;
    }
    spin.wait();
  }
}

// REQUIRES: a Writing is held.
void Window::put(const State& state) {
  const Region* old = region_.load(std::memory_order_relaxed);
  key_.store(state.key, std::memory_order_release);
  qpn_.store(state.qpn, std::memory_order_release);
  access_.store(state.access, std::memory_order_release);
  address_.store(state.address, std::memory_order_release);
  length_.store(state.length, std::memory_order_release);
  region_.store(state.region, std::memory_order_release);
  if (old != nullptr) {
    old->unpin();
  }
}

// The rules of binding that don't depend on the window's present binding: IBTA vol. 1, 10.6.7.2
// (C10-72 to C10-75 and o10-36, o10-37).
WindowChange Window::check_bind(const WindowBind& bind, const Region* region,
                                const KeyUser& user) const {
  if (user.pd != pd_) {
    return WindowChange::kWrongPd;
  }
  if (type_ == WindowType::kType1 && (bind.access & kAccessZeroBased) != 0) {
    return WindowChange::kWrongType;
  }
  if (bind.length == 0) {
    return type_ == WindowType::kType1 ? WindowChange::kDone : WindowChange::kOutOfRange;
  }
  if (region == nullptr) {
    return WindowChange::kNoRegion;
  }
  if (region->pd() != pd_) {
    return WindowChange::kWrongPd;
  }
  const std::uint32_t wanted = bind.access & kAccessFlushing;
  if ((region->access() & kAccessMwBind) == 0 || (region->access() & wanted) != wanted ||
      ((bind.access & kAccessChanging) != 0 && (region->access() & kAccessLocalWrite) == 0)) {
    return WindowChange::kNoRight;
  }
  return inside(bind, *region) ? WindowChange::kDone : WindowChange::kOutOfRange;
}

WindowChange Window::bind(const WindowBind& bind, const Region* region, const KeyUser& user) {
  if (const WindowChange refused = check_bind(bind, region, user); refused != WindowChange::kDone) {
    return refused;
  }
  const Writing writing(version_);
  if (type_ == WindowType::kType2 && region_.load(std::memory_order_relaxed) != nullptr) {
    return WindowChange::kNotFree;
  }
  State next{.key = (key_.load(std::memory_order_relaxed) & ~kTagMask) | (bind.new_key & kTagMask)};
  if (bind.length != 0) {
    if (!region->pin()) {
      return WindowChange::kNoRegion;  // it is about to be deregistered
    }
    next.qpn = user.qpn;
    next.access = bind.access;
    next.address = bind.address;
    next.length = bind.length;
    next.region = region;
  }
  put(next);
  return WindowChange::kDone;
}

WindowChange Window::invalidate(std::uint32_t key, const KeyUser& user, bool remote) {
  if (user.pd != pd_) {
    return WindowChange::kWrongPd;
  }
  if (type_ != WindowType::kType2) {
    return WindowChange::kWrongType;
  }
  const Writing writing(version_);
  if (key_.load(std::memory_order_relaxed) != key) {
    return WindowChange::kNoWindow;
  }
  const bool bound = region_.load(std::memory_order_relaxed) != nullptr;
  if (bound && remote && qpn_.load(std::memory_order_relaxed) != user.qpn) {
    return WindowChange::kWrongQp;
  }
  put({.key = key});
  return WindowChange::kDone;
}

void Window::release(std::uint32_t qpn) {
  const Writing writing(version_);
  const Region* bound = region_.load(std::memory_order_relaxed);
  const bool theirs = type_ == WindowType::kType2 && qpn_.load(std::memory_order_relaxed) == qpn;
  if (bound != nullptr && (qpn == 0 || theirs)) {
    put({.key = key_.load(std::memory_order_relaxed)});
  }
}

// A pass over all windows comes here, most of which have nothing to do with the region: they aren't
// locked, which would take their cache lines from the workers that use them. Relaxed: what is read
// decides only whether the window is worth locking. A bind that this doesn't see has pinned the
// region before, so that Region::close() refuses until the window has been found by a later pass.
void Window::release_from(const Region& region) {
  if (region_.load(std::memory_order_relaxed) != &region) {
    return;
  }
  const Writing writing(version_);
  if (region_.load(std::memory_order_relaxed) == &region) {
    put({.key = key_.load(std::memory_order_relaxed)});
  }
}

// Unlike above, the region has to be looked at, which exists for certain only while nobody else can
// unbind the window.
void Window::release_from_retired() {
  if (region_.load(std::memory_order_relaxed) == nullptr) {
    return;  // as above
  }
  const Writing writing(version_);
  const Region* bound = region_.load(std::memory_order_relaxed);
  if (bound != nullptr && bound->unbindable()) {
    put({.key = key_.load(std::memory_order_relaxed)});
  }
}

}  // namespace uroce
