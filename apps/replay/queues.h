#pragma once

// All queues that the program's side of one queue pair has, for tests that play the program.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "abi/completion.h"
#include "abi/work_request.h"
#include "apps/replay/rings.h"
#include "dataplane/qp/qp.h"

namespace uroce {

struct QueuesConfig {
  std::uint32_t send_entries = 64;  // powers of two
  std::uint32_t recv_entries = 64;
  std::uint32_t cq_entries = 256;
  std::uint32_t sge_max = 4;
  std::uint32_t inline_max = 64;
};

class Queues {
 public:
  explicit Queues(const QueuesConfig& config);
  Queues(const Queues&) = delete;
  Queues& operator=(const Queues&) = delete;

  // Tells a queue pair to be made where its queues are. They outlive it.
  void attach(QpConfig* config);

  void post_send(const abi::SendWr& wr, std::span<const abi::Sge> sges = {}) {
    sends.post_send(wr, sges);
  }
  void post_inline(const abi::SendWr& wr, std::span<const std::byte> bytes) {
    sends.post_inline(wr, bytes);
  }
  void post_recv(std::uint64_t wr_id, std::span<const abi::Sge> sges) {
    receives.post_receive(wr_id, sges);
  }
  [[nodiscard]] std::optional<abi::Cqe> poll_send() { return send_completions.poll(); }
  [[nodiscard]] std::optional<abi::Cqe> poll_recv() { return receive_completions.poll(); }
  // How many work requests the card has freed the slots of.
  [[nodiscard]] std::uint32_t send_consumer() const { return sends.control.consumer.value; }

  WorkRing sends;
  WorkRing receives;
  CompletionRing send_completions;
  CompletionRing receive_completions;

 private:
  QueuesConfig config_;
  CompletionQueue send_cq_;
  CompletionQueue receive_cq_;
  ReceiveQueue receive_queue_;
};

}  // namespace uroce
