#pragma once

// Messages that name themselves: over UC or as datagrams, where they may get lost, and into shared
// receive queues, where nobody can tell beforehand which buffer takes which message. Every message
// that arrives must be whole, right and for the right queue pair; what doesn't arrive is counted,
// and on a reliable service it is an error.
//
// A message is a function of the seed, its round and its number, so the receiver can tell what it
// must hold. In a round each side sends kRoundMessages from each queue pair; when both have sent
// all, what hasn't come after a while of silence is lost.

#include <chrono>
#include <cstdint>
#include <vector>

#include "apps/integrity/integrity_link.h"
#include "apps/integrity/integrity_messages_verbs.h"
#include "apps/integrity/integrity_rounds.h"

namespace integrity {

struct MessageTotals {
  std::uint64_t operations = 0, errors = 0, lost = 0, repeated = 0, late = 0;
};

class MessageRunner : Rounds {
 public:
  MessageRunner(MessageCard& card, Link& link, std::uint64_t seed, bool leads);

  // Rounds until both sides together have sent `operations`.
  MessageTotals run(std::uint64_t operations);

 private:
  struct Progress {
    std::uint32_t posted = 0, completed = 0;  // our messages
    std::vector<std::uint32_t> free_slots;    // receive buffers that aren't posted
    std::uint32_t told = 0, telling = 0;      // of so many of the peer's messages completions tell
    std::vector<bool> seen;                   // the peer's messages
  };
  struct Message {
    ibv_wr_opcode opcode;
    std::uint32_t length;
    std::uint32_t target;  // the peer's queue pair; of XRC its shared receive queue
  };

  [[nodiscard]] Message message(bool mine, std::uint64_t round, std::uint32_t qp,
                                std::uint32_t number) const;
  void fill(std::uint8_t* bytes, bool mine, std::uint64_t round, std::uint32_t qp,
            std::uint32_t number, std::uint32_t length) const;
  void begin_round();
  bool send_all();
  [[nodiscard]] std::uint32_t index_of(std::uint32_t qpn);
  void post_receive(std::uint32_t owner, std::uint32_t slot);
  void post(std::uint32_t qp);
  bool poll();
  void received(std::uint32_t owner, std::uint32_t slot, const ibv_wc& wc);
  void check(std::uint32_t at_qp, std::uint32_t owner, const std::uint8_t* bytes, const ibv_wc& wc,
             std::uint32_t length);
  void note(std::uint64_t round, std::uint32_t qp, std::uint32_t number);
  void check_regions(bool verdict);
  void check_region(std::uint32_t qp, bool verdict);
  [[nodiscard]] std::vector<std::uint8_t> place_untouched() const;
  [[nodiscard]] std::vector<std::uint8_t> place_after(std::uint32_t qp, std::uint32_t number,
                                                      std::uint64_t round) const;
  void drain();
  void account();

  MessageCard& card_;
  std::uint64_t seed_;
  bool leads_;
  std::vector<Progress> progress_;
  MessageTotals totals_;
  bool failed_ = false;
};

}  // namespace integrity
