#include "mmu/window_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"

namespace uroce {

WindowTable::WindowTable(Quiescence& quiescence, std::uint32_t first_index,
                         std::uint32_t windows_max, std::uint64_t seed)
    : quiescence_(quiescence), first_index_(first_index), slots_(windows_max), random_(seed) {
  free_.reserve(windows_max);
  for (std::uint32_t index = 0; index < windows_max; ++index) {
    free_.push_back(index);
  }
}

WindowTable::~WindowTable() {
  for (std::atomic<Window*>& slot : slots_) {
    delete slot.load(std::memory_order_relaxed);  // no worker is left
  }
}

Result<std::uint32_t> WindowTable::add(PdId pd, WindowType type) {
  auto window = std::make_unique<Window>(pd, type);
  const std::uint32_t key = publish(std::move(window));
  if (key == 0) {
    return Error{ENOMEM, "all " + std::to_string(slots_.size()) +
                             " memory windows of the daemon are in use"};
  }
  return key;
}

std::uint32_t WindowTable::publish(std::unique_ptr<Window> window) {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    return 0;
  }
  std::swap(free_[random_() % free_.size()], free_.back());
  const std::uint32_t index = free_.back();
  // A new window is bound to nothing, so whatever tag an old key of this index has, it fails.
  const std::uint32_t key = (first_index_ + index) << kKeyTagBits |
                            (static_cast<std::uint32_t>(random_()) & Window::kTagMask);
  window->key_.store(key, std::memory_order_relaxed);
  slots_[index].store(window.release(), std::memory_order_release);  // pairs with find()
  free_.pop_back();
  return key;
}

void WindowTable::remove_all(std::span<const std::uint32_t> keys) {
  UROCE_CHECK(keys.size() <= kKeysAtOnce);
  if (keys.empty()) {
    return;
  }
  std::array<std::unique_ptr<Window>, kKeysAtOnce> removed;
  {
    const std::lock_guard lock(mutex_);
    std::transform(keys.begin(), keys.end(), removed.begin(),
                   [this](std::uint32_t key) { return unpublish(key); });
  }
  const bool unused = quiescence_.wait();  // true: no worker uses them, nor binds them any more
  std::list<std::unique_ptr<Window>> kept;
  for (std::unique_ptr<Window>& window : std::span(removed).first(keys.size())) {
    window->release(0);
    if (!unused) {
      kept.push_back(std::move(window));
    }
  }
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t key : keys) {
    free_.push_back(key_index(key) - first_index_);  // it had room for all from the beginning
  }
  unreclaimed_.splice(unreclaimed_.end(), kept);
}

std::unique_ptr<Window> WindowTable::unpublish(std::uint32_t key) {
  std::atomic<Window*>& slot = slots_[key_index(key) - first_index_];
  std::unique_ptr<Window> window(slot.exchange(nullptr, std::memory_order_relaxed));
  UROCE_CHECK(window != nullptr);
  return window;
}

void WindowTable::release_qp(std::uint32_t key, std::uint32_t qpn) {
  if (Window* window = find(key)) {
    window->release(qpn);
  }
}

template <typename Visit>
void WindowTable::for_each(Visit&& visit) {
  const std::lock_guard lock(mutex_);
  for (const std::atomic<Window*>& slot : slots_) {
    if (Window* window = slot.load(std::memory_order_relaxed)) {
      visit(*window);
    }
  }
}

void WindowTable::release_region(const Region& region) {
  for_each([&](Window& window) { window.release_from(region); });
}

void WindowTable::release_retired() {
  for_each([](Window& window) { window.release_from_retired(); });
}

Access WindowTable::check(std::uint32_t key, const KeyUser& user, std::uint64_t* address,
                          std::uint64_t length, std::uint32_t rights, const Region** region) const {
  const Window* window = find(key);
  if (window == nullptr) {
    return Access::kUnknownKey;
  }
  const Window::State state = window->state();
  if (state.key != key || state.region == nullptr) {
    return Access::kUnknownKey;
  }
  if (window->pd() != user.pd || (window->type() == WindowType::kType2 && state.qpn != user.qpn)) {
    return Access::kWrongPd;
  }
  if ((rights & ~state.access) != 0) {
    return Access::kNoRight;
  }
  const std::uint64_t start = (state.access & kAccessZeroBased) != 0 ? 0 : state.address;
  const std::uint64_t distance = *address - start;
  if (length != 0 && (distance >= state.length || length > state.length - distance)) {
    return Access::kOutOfRange;
  }
  *address = state.address + distance;
  *region = state.region;
  return Access::kGranted;
}

}  // namespace uroce
