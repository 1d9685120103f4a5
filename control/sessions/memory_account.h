#pragma once

// What the queues of a session cost the daemon: their rings, its private copies of work requests,
// and a mapping for each. Device memory counts too. A session's account is charged first, then that
// of its user, so that neither one hostile program nor many of one user take all memory. Control
// thread only.

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"

namespace uroce::control {

class MemoryAccount;

// A part of an account that is given back when this goes.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryAccount& account, std::size_t bytes) : account_(&account), bytes_(bytes) {}
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)), bytes_(other.bytes_) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;
  inline ~MemoryCharge();

 private:
  MemoryAccount* account_ = nullptr;
  std::size_t bytes_ = 0;
};

class MemoryAccount {
 public:
  // `owner` as in "the queues of <owner>". The parent, if there is one, outlives the account.
  MemoryAccount(std::string owner, std::size_t limit, std::size_t mappings_max,
                MemoryAccount* parent = nullptr)
      : owner_(std::move(owner)), limit_(limit), mappings_max_(mappings_max), parent_(parent) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // For one mapping of so many bytes. ENOMEM with a sentence that names the limit. The account
  // outlives the charge.
  Result<MemoryCharge> charge(std::size_t bytes) {
    for (MemoryAccount* account = this; account != nullptr; account = account->parent_) {
      if (account->mappings_ >= account->mappings_max_) {
        return Error{ENOMEM, account->owner_ + " has " + std::to_string(account->mappings_) +
                                 " queues and pieces of device memory, no more"};
      }
      if (bytes > account->limit_ - account->used_) {
        constexpr std::size_t kMebi = 1U << 20U;
        return Error{ENOMEM, "the queues of " + account->owner_ + " may take " +
                                 std::to_string(account->limit_ / kMebi) + " MiB, of which " +
                                 std::to_string(account->used_ / kMebi) + " are taken and " +
                                 std::to_string(bytes / kMebi + 1) + " more were asked for"};
      }
    }
    for (MemoryAccount* account = this; account != nullptr; account = account->parent_) {
      account->used_ += bytes;
      ++account->mappings_;
    }
    return MemoryCharge(*this, bytes);
  }

  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  friend class MemoryCharge;
  std::string owner_;
  std::size_t limit_;
  std::size_t used_ = 0;  // never above limit_
  std::size_t mappings_max_;
  std::size_t mappings_ = 0;
  MemoryAccount* parent_;
};

MemoryCharge::~MemoryCharge() {
  for (MemoryAccount* account = account_; account != nullptr; account = account->parent_) {
    account->used_ -= bytes_;
    --account->mappings_;
  }
}

}  // namespace uroce::control
