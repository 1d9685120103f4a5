#pragma once

// Runs the rounds: posts our plan, takes what the peer's plan sends us, and compares every byte and
// every completion with what the plans say.

#include <chrono>
#include <cstdint>

#include "apps/integrity/integrity_link.h"
#include "apps/integrity/integrity_plan.h"
#include "apps/integrity/integrity_rounds.h"
#include "apps/integrity/integrity_verbs.h"

namespace integrity {

struct Totals {
  std::uint64_t operations = 0;
  std::uint64_t errors = 0;
};

// What a receive's work request identifier has besides.
inline constexpr std::uint64_t kReceiveBit = 1ULL << 63U;

class Runner : Rounds {
 public:
  // Both sides give the same seed; one of them leads.
  Runner(Card& card, Link& link, const Limits& limits, std::uint64_t seed, bool leads);

  // Rounds until both sides together have done `operations`.
  Totals run(std::uint64_t operations);

 private:
  struct Progress {
    std::uint32_t posted = 0;    // operations of ours
    std::uint32_t retired = 0;   // of which so many are known to be complete
    std::uint32_t received = 0;  // receives of the peer's messages that completed
    std::uint32_t receives_posted = 0;
    std::vector<std::uint32_t> receivers;  // the peer's operations that consume a receive
  };

  void begin_round();
  bool drive();
  [[nodiscard]] bool finished(std::uint32_t qp) const;
  [[nodiscard]] bool all_finished() const;
  [[nodiscard]] int patience_ms() const;
  void post_sends(std::uint32_t qp);
  std::uint32_t post_extended(std::uint32_t qp, std::uint32_t index);
  // integrity_windows.cc
  bool open_windows();
  bool close_windows();
  void bind_window(std::uint32_t qp);
  void close_window(std::uint32_t qp, bool by_peer);
  void await(std::uint32_t qp, ibv_wc_opcode opcode, bool receives);
  void post_receives(std::uint32_t qp, std::uint32_t count);
  bool poll(ibv_cq* cq);
  bool take_events(int timeout_ms);
  void completed(const ibv_wc& wc);
  void send_completed(std::uint32_t qp, std::uint32_t index, const ibv_wc& wc);
  void receive_completed(std::uint32_t qp, std::uint32_t index, const ibv_wc& wc);
  void compare(const char* what, std::uint32_t qp, const std::uint8_t* have,
               const std::vector<std::uint8_t>& image, std::uint32_t from, std::uint32_t length);
  void compare_pieces(const char* what, std::uint32_t qp, std::uint32_t index, Arena& arena,
                      const std::vector<std::uint8_t>& image, const std::vector<Piece>& pieces,
                      std::uint32_t length);
  void compare_all();
  void print_state() const;
  [[nodiscard]] std::uint64_t work_id(std::uint32_t qp, std::uint32_t index, bool receive) const;

  Card& card_;
  Limits limits_;
  bool leads_;
  Planner mine_, theirs_;  // what we do, and what the peer does to us
  std::vector<Progress> progress_;
  std::uint64_t operations_ = 0;  // of both sides
  bool failed_ = false;           // a queue pair broke: go on would only repeat it
  std::chrono::steady_clock::time_point last_progress_;
};

}  // namespace integrity
