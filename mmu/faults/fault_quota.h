#pragma once

// Limits the fault records of one session, and of one user: a program that doesn't answer holds
// each of its records until the pager's timeout, and others must still find some.

#include <atomic>
#include <cstdint>
#include <memory>

namespace uroce {

// The count of a user or a session. Relaxed throughout: these are bounds, and order nothing.
using FaultCount = std::atomic<std::uint32_t>;

class FaultQuota {
 public:
  static constexpr std::uint32_t kSessionMax = 256;

  // `user`: shared by all sessions of a user; nullptr: no per-user limit.
  explicit FaultQuota(std::shared_ptr<FaultCount> user = nullptr)
      : user_(user != nullptr ? std::move(user) : std::make_shared<FaultCount>(0)) {}

  // `left`: unused records. A user gets at most as many as it leaves to others, so that each
  // further user finds some. Workers.
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
