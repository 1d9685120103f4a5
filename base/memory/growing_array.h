#pragma once

// An array that grows at its end, for code that has no exceptions and that memory may run out in:
// where std::vector would end the program, adding fails.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace uroce {

template <typename T>
class GrowingArray {
 public:
  GrowingArray() = default;
  GrowingArray(GrowingArray&& other) noexcept
      : items_(std::move(other.items_)),
        size_(std::exchange(other.size_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  GrowingArray& operator=(GrowingArray&& other) noexcept {
    items_ = std::move(other.items_);
    size_ = std::exchange(other.size_, 0);
    room_ = std::exchange(other.room_, 0);
    return *this;
  }
  GrowingArray(const GrowingArray&) = delete;
  GrowingArray& operator=(const GrowingArray&) = delete;

  // False: there is no memory, and the array is as before.
  [[nodiscard]] bool add(T item) {
    if (size_ == room_ && !grow()) {
      return false;
    }
    items_[size_++] = std::move(item);
    return true;
  }
  // Removes all but the first so many. What is removed isn't destroyed before it is overwritten or
  // the array goes.
  void cut(std::size_t count) { size_ = std::min(size_, count); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  T* data() { return items_.get(); }
  const T* data() const { return items_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  // REQUIRES: there is such an item.
  T& operator[](std::size_t index) { return items_[index]; }
  const T& operator[](std::size_t index) const { return items_[index]; }
  T& front() { return items_[0]; }
  const T& front() const { return items_[0]; }
  T& back() { return items_[size_ - 1]; }

 private:
  bool grow() {
    constexpr std::size_t kRoomMin = 8;
    const std::size_t room = std::max(kRoomMin, 2 * room_);
    std::unique_ptr<T[]> items(new (std::nothrow) T[room]);
    if (items == nullptr) {
      return false;
    }
    std::move(begin(), end(), items.get());
    items_ = std::move(items);
    room_ = room;
    return true;
  }

  std::unique_ptr<T[]> items_;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

}  // namespace uroce
