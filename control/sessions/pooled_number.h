#pragma once

// A number out of a pool, held like memory: it goes back when its lease does, so also where the
// making of what it was taken for fails half-way. The pool outlives its leases. Control thread
// only.

#include <cstdint>
#include <utility>

namespace uroce::control {

// Pool::release(number) takes one back.
template <typename Pool>
class PooledNumber {
 public:
  PooledNumber() = default;  // of nothing
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
  // REQUIRES: it is of something.
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  Pool* pool_ = nullptr;
  std::uint32_t number_ = 0;
};

}  // namespace uroce::control
