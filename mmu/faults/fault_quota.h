#pragma once

// What of the fault records one session, and one user, has on the way: a program that doesn't
// answer keeps each of its own for the pager's patience, and others must find some all the same.

#include <atomic>
#include <cstdint>
#include <memory>

namespace uroce {

// Of a user, or a session. Relaxed throughout: these are bounds, and order nothing.
using FaultCount = std::atomic<std::uint32_t>;

class FaultQuota {
 public:
  static constexpr std::uint32_t kSessionMax = 256;

  // `user`: shared by all sessions of a user; nullptr: there are no others.
  explicit FaultQuota(std::shared_ptr<FaultCount> user = nullptr)
      : user_(user != nullptr ? std::move(user) : std::make_shared<FaultCount>(0)) {}

  // `left`: records that nobody has. A user gets at most as many as it leaves to others, so that
  // each further one finds some. Workers.
  [[nodiscard]] bool has_room(std::uint32_t left) const {
    return session_.load(std::memory_order_relaxed) < kSessionMax &&
           user_->load(std::memory_order_relaxed) < left;
  }
  void take() {
    session_.fetch_add(1, std::memory_order_relaxed);
    user_->fetch_add(1, std::memory_order_relaxed);
  }
  // The fault thread.
  void give_back() {
    session_.fetch_sub(1, std::memory_order_relaxed);
    user_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  FaultCount session_{0};
  std::shared_ptr<FaultCount> user_;
};

}  // namespace uroce
