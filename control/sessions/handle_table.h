#pragma once

// A session's objects of one kind, by handle. A handle is a small number that stays valid until the
// object is removed; freed handles are reused in the order in which they became free, so that a
// stale one isn't taken for a new object at once.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace uroce::control {

template <typename Object>
class HandleTable {
 public:
  std::uint32_t add(std::unique_ptr<Object> object) {
    ++count_;
    if (free_.size() > kQuarantine) {
      const std::uint32_t handle = free_.front();
      free_.pop_front();
      slots_[handle] = std::move(object);
      return handle;
    }
    slots_.push_back(std::move(object));
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  // nullptr if there is none: handles come from programs.
  [[nodiscard]] Object* find(std::uint32_t handle) const {
    return handle < slots_.size() ? slots_[handle].get() : nullptr;
  }

  // REQUIRES: find(handle) != nullptr
  std::unique_ptr<Object> remove(std::uint32_t handle) {
    --count_;
    free_.push_back(handle);
    return std::move(slots_[handle]);
  }

  [[nodiscard]] std::size_t count() const { return count_; }

  // Calls visit(handle, object) for each object, which may remove it.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t handle = 0; handle < slots_.size(); ++handle) {
      if (slots_[handle]) {
        visit(static_cast<std::uint32_t>(handle), *slots_[handle]);
      }
    }
  }

 private:
  static constexpr std::size_t kQuarantine = 16;  // freed handles that aren't reused yet
  std::vector<std::unique_ptr<Object>> slots_;
  std::deque<std::uint32_t> free_;
  std::size_t count_ = 0;
};

}  // namespace uroce::control
