#pragma once

// Rounds that both processes begin together, and the errors that are found in them.

#include <cstdint>

#include "apps/integrity/integrity_link.h"

namespace integrity {

class Rounds {
 protected:
  explicit Rounds(Link& link) : link_(link) {}

  // Waits until the peer has come as far as we have. False when it is gone.
  bool meet();
  // Counts an error; prints the first ones.
  void wrong(const char* format, ...) __attribute__((format(printf, 2, 3)));

  [[nodiscard]] Link& link() { return link_; }
  [[nodiscard]] std::uint64_t current_round() const { return round_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }
  void end_round() { ++round_; }

 private:
  Link& link_;
  std::uint64_t round_ = 0;
  std::uint64_t errors_ = 0;
};

}  // namespace integrity
