#pragma once

// The objects of one kind that a program has, by handle. A handle is a small number that stays
// valid until the object is removed; removing allocates nothing. Freed handles are reused late
// (late_numbers.h), so that a stale handle is not valid again at once.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/late_numbers.h"
#include "base/result.h"

namespace uroce {

template <typename Object>
class HandleTable {
 public:
  // What an object of it is called in errors: "completion queue".
  explicit HandleTable(const char* kind) : kind_(kind) {}

  // Where add() throws for want of memory, nothing has changed.
  std::uint32_t add(std::unique_ptr<Object> object) {
    make_room();
    ++count_;
    const std::uint32_t handle = handles_.take();
    if (handle == slots_.size()) {
      slots_.emplace_back();
    }
    slots_[handle] = std::move(object);
    return handle;
  }

  // After it the next add() doesn't throw.
  void make_room() {
    handles_.make_room();
    slots_.reserve(handles_.capacity());
  }

  // nullptr if there is none: handles come from programs.
  [[nodiscard]] Object* find(std::uint32_t handle) const {
    return handle < slots_.size() ? slots_[handle].get() : nullptr;
  }

  // EINVAL: there is none, in a sentence that names kind and handle.
  [[nodiscard]] Result<Object*> get(std::uint32_t handle) const {
    Object* const object = find(handle);
    if (object == nullptr) {
      return Error{EINVAL, std::string("there is no ") + kind_ + " with handle " +
                               std::to_string(handle) + " here"};
    }
    return object;
  }

  // REQUIRES: find(handle) != nullptr
  std::unique_ptr<Object> remove(std::uint32_t handle) noexcept {
    --count_;
    handles_.give_back(handle);
    return std::move(slots_[handle]);
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  // No handle is as high.
  [[nodiscard]] std::uint32_t handles_end() const {
    return static_cast<std::uint32_t>(slots_.size());
  }
  [[nodiscard]] const char* kind() const { return kind_; }

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
  const char* kind_;
  LateNumbers handles_;
  std::vector<std::unique_ptr<Object>> slots_;  // as many as there were handles
  std::size_t count_ = 0;
};

}  // namespace uroce
