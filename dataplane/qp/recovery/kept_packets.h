#pragma once

// Which packets a role has had kept, because they came ahead of one that is missing. The frames
// belong to the caller, who gives them again in the order of their PSNs (Step::kKept); here are
// only their places. Nothing of them is executed before its turn, so memory is written in the order
// that the specification wants.
//
// Invariant: the bits that are set lie within kSpan PSNs ahead of the role's next one, so that a
// PSN's bit is its own.

#include <bitset>
#include <cstdint>

#include "dataplane/wire/kept_report.h"
#include "dataplane/wire/psn.h"

namespace uroce {

class KeptPackets {
 public:
  // How far ahead of the missing packet one may be: four times a window of 1 MiB at an MTU of 4096,
  // for what our own requesters send on while a packet is repaired.
  static constexpr std::uint32_t kSpan = KeptReport::kSpan;
  // Frames of one role of a queue pair.
  static constexpr std::uint32_t kMax = 768;

  [[nodiscard]] std::uint32_t count() const { return count_; }
  // REQUIRES: `psn` is less than kSpan ahead of the role's next one.
  [[nodiscard]] bool has(std::uint32_t psn) const { return bits_[psn % kSpan]; }

  // False if it is too far ahead of `next`, is kept already, or there are too many.
  bool add(std::uint32_t next, std::uint32_t psn) {
    if (distance(next, psn) >= kSpan || has(psn) || count_ == kMax) {
      return false;
    }
    bits_.set(psn % kSpan);
    ++count_;
    return true;
  }

  // The role has gone on from `from` to `to`.
  void passed(std::uint32_t from, std::uint32_t to) {
    if (count_ == 0) [[likely]] {
      return;
    }
    for (std::uint32_t left = distance(from, to); left != 0 && count_ != 0; --left) {
      remove(from);
      from = psn_add(from, 1);
    }
  }

  void clear() { *this = KeptPackets(); }

  // The address of count(), for who prefetches it and what lies behind this object.
  [[nodiscard]] const void* line() const { return &count_; }

 private:
  void remove(std::uint32_t psn) {
    count_ -= has(psn) ? 1U : 0U;
    bits_.reset(psn % kSpan);
  }

  std::bitset<kSpan> bits_;
  // As a rule it is all that is looked at: last, beside what follows the object.
  std::uint32_t count_ = 0;
};

}  // namespace uroce
