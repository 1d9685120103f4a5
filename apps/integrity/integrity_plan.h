#pragma once

// What one side will do to the other in a round, and what all memory must hold afterwards.
//
// Both processes make the same plan from the same seed: the driver posts it, the target knows what
// must come. So every byte that was sent, and every byte that must not have been touched, can be
// compared on either side.

#include <cstdint>
#include <random>
#include <vector>

namespace integrity {

enum class Kind {
  kSend,
  kSendImm,
  kWrite,
  kWriteImm,
  kRead,
  kCompareSwap,
  kFetchAdd,
  kAtomicWrite,  // from here on: only with --windows
  kFlush,
};
inline constexpr unsigned kKinds = 9;
inline constexpr unsigned kKindsPlain = 7;

// Bytes of an arena: an element of a scatter/gather list.
struct Piece {
  std::uint32_t offset;
  std::uint32_t length;
};

struct Operation {
  Kind kind = Kind::kSend;
  std::uint32_t length = 0;         // bytes of the message
  std::uint32_t remote_offset = 0;  // in the target's region
  std::vector<Piece> local;         // in the driver's source, or its sink for what comes back
  std::vector<Piece> receive;       // in the target's receive arena
  bool receives = false;            // consumes a receive request
  bool signaled = false, fence = false, inlined = false, solicited = false;
  std::uint32_t immediate = 0;
  std::uint64_t compare_add = 0, swap = 0;

  // Whether bytes come back to the driver's sink.
  [[nodiscard]] bool extended() const { return kind == Kind::kAtomicWrite || kind == Kind::kFlush; }
  [[nodiscard]] bool comes_back() const {
    return kind == Kind::kRead || kind == Kind::kCompareSwap || kind == Kind::kFetchAdd;
  }
};

struct Limits {
  std::uint32_t queue_pairs = 8;
  // Of a message, in bytes. With this many, what is registered fits the 8 MiB that an ordinary user
  // may lock: of each queue pair four arenas, one of them twice.
  std::uint32_t size_max = 32'768;
  std::uint32_t operations_max = 64;  // of a queue pair in a round
  std::uint32_t sges_max = 4;         // of a request
  std::uint32_t inline_max = 0;       // bytes
  std::uint32_t unsignaled_max = 7;   // in a row
  bool windows = false;  // regions are reached through memory windows; atomic writes and flushes
  [[nodiscard]] std::uint32_t arena_size() const { return 4 * size_max + 65'536; }
};

// One queue pair's plan for a round, driver to target.
struct QpPlan {
  std::vector<Operation> operations;
  // Images: what the memory must hold. The source before the round; the sink and the receive arena
  // after it; the region lives on from round to round.
  std::vector<std::uint8_t> source, sink, receive, region;
  std::uint32_t source_used = 0, sink_used = 0, receive_used = 0;
};

// What arenas are filled with before a round.
inline constexpr std::uint8_t kSinkFill = 0x5A;
inline constexpr std::uint8_t kReceiveFill = 0xA5;

class Planner {
 public:
  Planner(const Limits& limits, std::uint64_t seed);

  // Plans the next round, of at most `operations` in all. Returns how many there are.
  std::uint64_t next_round(std::uint64_t operations);
  [[nodiscard]] const QpPlan& plan(std::uint32_t qp) const { return plans_[qp]; }

  // Whether this queue pair signals every request, whatever the request says.
  static bool signals_all(std::uint32_t qp) { return qp % 4 == 3; }

 private:
  std::uint64_t random(std::uint64_t below);
  bool chance(unsigned percent) { return random(100) < percent; }
  std::uint32_t random_length();
  std::vector<Piece> place(std::uint32_t length, std::uint32_t& used, unsigned pieces_max);
  bool add(std::uint32_t qp);
  void plan_outgoing(QpPlan& plan, Operation& operation);
  void plan_read(QpPlan& plan, Operation& operation);
  void plan_atomic(QpPlan& plan, Operation& operation);
  void plan_atomic_write(QpPlan& plan, Operation& operation);
  void plan_flush(QpPlan& plan, Operation& operation);
  void plan_receive(QpPlan& plan, Operation& operation);
  void fence_if_read(Operation& operation);

  Limits limits_;
  std::mt19937_64 random_;
  std::vector<QpPlan> plans_;
  std::vector<Piece> being_read_;  // of the region, by requests that nothing was fenced behind
  std::uint32_t unsignaled_ = 0;
};

}  // namespace integrity
