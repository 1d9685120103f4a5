#pragma once

// A number from a pool, released in the destructor, also if the construction of its owner fails
// half-way. The pool outlives its numbers. Control thread only.

#include <cstdint>
#include <utility>

namespace uroce::control {

// Pool::release(number) returns a number.
template <typename Pool>
class PooledNumber {
 public:
  PooledNumber() = default;  // empty
  PooledNumber(Pool& pool, std::uint32_t number) : pool_(&pool), number_(number) {}
  PooledNumber(PooledNumber&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), number_(other.number_) {}
  PooledNumber& operator=(PooledNumber&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(number_, other.number_);
    return *this;
  }
  PooledNumber(const PooledNumber&) = delete;
  PooledNumber& operator=(const PooledNumber&) = delete;
  ~PooledNumber() {
    if (pool_ != nullptr) {
      pool_->release(number_);
    }
  }

  explicit operator bool() const { return pool_ != nullptr; }
  // REQUIRES: it holds a number.
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  Pool* pool_ = nullptr;
  std::uint32_t number_ = 0;
};

}  // namespace uroce::control
