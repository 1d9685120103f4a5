#pragma once

// The lossy mode: messages over UC or as datagrams, which may get lost. Every message that arrives
// must be whole, right and for the right queue pair; what doesn't arrive is counted.
//
// A message is a function of the seed, its round and its number, so the receiver can tell what it
// must hold. In a round each side sends kLossyMessages from each queue pair; when both have sent
// all, what hasn't come after a while of silence is lost.

#include <chrono>
#include <cstdint>
#include <vector>

#include "apps/examples/integrity_link.h"
#include "apps/examples/integrity_lossy_verbs.h"

namespace integrity {

struct LossyTotals {
  std::uint64_t operations = 0, errors = 0, lost = 0, repeated = 0, late = 0;
};

class LossyRunner {
 public:
  LossyRunner(LossyCard& card, Link& link, std::uint64_t seed, bool leads);

  // Rounds until both sides together have sent `operations`.
  LossyTotals run(std::uint64_t operations);

 private:
  struct Progress {
    std::uint32_t posted = 0, completed = 0;  // our messages
    std::uint32_t receives_posted = 0;
    std::vector<std::uint32_t> free_slots;  // receive buffers that aren't posted
    std::vector<bool> seen;                 // the peer's messages
  };
  struct Message {
    ibv_wr_opcode opcode;
    std::uint32_t length;
    std::uint32_t target;  // the peer's queue pair; UC has no choice
  };

  [[nodiscard]] Message message(bool mine, std::uint64_t round, std::uint32_t qp,
                                std::uint32_t number) const;
  void fill(std::uint8_t* bytes, bool mine, std::uint64_t round, std::uint32_t qp,
            std::uint32_t number, std::uint32_t length) const;
  void begin_round();
  void post(std::uint32_t qp);
  bool poll();
  void received(std::uint32_t qp, std::uint32_t slot, const ibv_wc& wc);
  void check(std::uint32_t at_qp, const std::uint8_t* bytes, const ibv_wc& wc,
             std::uint32_t length);
  void check_regions(bool verdict);
  void check_region(std::uint32_t qp, bool verdict);
  [[nodiscard]] std::vector<std::uint8_t> place_untouched() const;
  [[nodiscard]] std::vector<std::uint8_t> place_after(std::uint32_t qp, std::uint32_t number,
                                                      std::uint64_t round) const;
  void drain();
  void account();
  bool meet();
  void wrong(const char* format, ...) __attribute__((format(printf, 2, 3)));

  LossyCard& card_;
  Link& link_;
  std::uint64_t seed_;
  bool leads_;
  std::vector<Progress> progress_;
  std::uint64_t round_ = 0;
  LossyTotals totals_;
  bool failed_ = false;
};

}  // namespace integrity
