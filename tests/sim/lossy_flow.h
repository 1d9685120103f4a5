#pragma once

// One direction between two unacknowledged queue pairs (UC, or UD, where any end sends to any
// other): messages may be lost, duplicated and, under faults, reordered. What arrives must be a
// complete message that was sent; each send completes once, in order; and on a link without faults
// nothing is lost.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/sim/node.h"
#include "tests/sim/random.h"

namespace uroce::sim {

struct LossyConfig {
  bool datagrams = false;
  std::uint32_t messages = 0;
  std::uint32_t message_bytes_max = 0;
  std::uint32_t send_entries = 1;
  std::uint32_t recv_entries = 1;
  std::uint32_t ah = 0;  // UD: the address handle at `from` for `to`
};

class LossyFlow {
 public:
  LossyFlow(const LossyConfig& config, std::uint32_t number, Random& random, Node& from,
            End& from_end, Node& to, End& to_end);

  // The sending program acts, or not. The receiving one posts as many receives as it can: a
  // lossless run must find a receive for each message.
  void act();
  // Processes completions; empty, or the error.
  [[nodiscard]] std::string check();
  [[nodiscard]] bool finished() const { return completed_ == config_.messages; }
  [[nodiscard]] std::uint32_t received() const { return received_; }
  [[nodiscard]] std::uint32_t sent() const { return completed_; }

  [[nodiscard]] static std::size_t arena_bytes(const LossyConfig& config);

 private:
  struct Head {
    std::uint32_t flow, message, length;
  };
  [[nodiscard]] std::vector<std::byte> message(std::uint32_t number) const;
  [[nodiscard]] std::uint32_t stride() const;
  void post_receives();
  void post_send();
  [[nodiscard]] std::string check_receive(const abi::Cqe& cqe);

  LossyConfig config_;
  std::uint32_t number_;
  std::uint64_t seed_;
  Random& random_;
  Node& from_;
  End& from_end_;
  Node& to_;
  End& to_end_;
  std::size_t sends_;     // send_entries places at `from`
  std::size_t receives_;  // recv_entries places at `to`
  std::uint32_t posted_ = 0, completed_ = 0;
  std::uint32_t receives_posted_ = 0, receives_completed_ = 0, received_ = 0;
};

}  // namespace uroce::sim
