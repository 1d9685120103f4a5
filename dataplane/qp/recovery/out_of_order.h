#pragma once

// The set of out-of-order packets that are buffered for a role (what TCP calls the out-of-order
// queue), as a bitmap by PSN. The frames belong to the caller, which passes them again in PSN order
// (Step::kOutOfOrder). A buffered packet isn't executed before its turn, so memory is written in
// the order that the specification requires.
//
// Invariant: all set bits lie within kSpan PSNs of the role's next one, so that each PSN has a bit
// of its own.

#include <bitset>
#include <cstdint>

#include "dataplane/wire/psn.h"
#include "dataplane/wire/sack.h"

namespace uroce {

class OutOfOrderPackets {
 public:
  // The largest distance from the missing packet: four windows of 1 MiB at an MTU of 4096, for what
  // our own requesters send while a packet is repaired.
  static constexpr std::uint32_t kSpan = Sack::kSpan;
  // Frames per role of a queue pair.
  static constexpr std::uint32_t kMax = 768;

  [[nodiscard]] std::uint32_t count() const { return count_; }
  // REQUIRES: `psn` is less than kSpan ahead of the role's next one.
  [[nodiscard]] bool has(std::uint32_t psn) const { return bits_[psn % kSpan]; }

  // False if it is too far ahead of `next`, buffered already, or there are too many.
  [[nodiscard]] bool may_add(std::uint32_t next, std::uint32_t psn) const {
    return psn_distance(next, psn) < kSpan && !has(psn) && count_ < kMax;
  }
  // REQUIRES: may_add()
  void add(std::uint32_t psn) {
    bits_.set(psn % kSpan);
    ++count_;
  }

  // The role's next PSN has moved from `from` to `to`.
  void passed(std::uint32_t from, std::uint32_t to) {
    if (count_ == 0) [[likely]] {
      return;
    }
    for (std::uint32_t left = psn_distance(from, to); left != 0 && count_ != 0; --left) {
      remove(from);
      from = psn_add(from, 1);
    }
  }

  void clear() { *this = OutOfOrderPackets(); }

  // The address of count(), for prefetching it and what follows this object.
  [[nodiscard]] const void* line() const { return &count_; }

 private:
  void remove(std::uint32_t psn) {
    count_ -= has(psn) ? 1U : 0U;
    bits_.reset(psn % kSpan);
  }

  std::bitset<kSpan> bits_;
  // Usually the only member that is read; last, so that it is next to what follows this object.
  std::uint32_t count_ = 0;
};

}  // namespace uroce
