#pragma once

// A miniature card: the daemon's own worker with a port that a replay feeds frame by frame, in
// virtual time; regions and queue pairs with the recorded numbers.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "apps/console/words.h"
#include "apps/replay/plan.h"
#include "apps/replay/queues.h"
#include "apps/replay/replay_port.h"
#include "dataplane/engine/worker.h"
#include "dataplane/qp/failure_report.h"
#include "mmu/key_table.h"
#include "mmu/quiescence.h"

namespace uroce::replay {

// The outcome of a frame.
struct Fate {
  enum class Kind : std::uint8_t { kReceived, kDropped, kControl, kMad, kTooLong };

  Kind kind = Kind::kReceived;
  Drop reason = Drop::kNone;  // kDropped
  bool duplicate = false;     // a queue pair knew it already
  std::vector<Bytes> answers{};
  std::vector<abi::Cqe> completions{};
  std::vector<FailureReport> failures{};
  std::optional<QpState> state{};  // of the queue pair, where the frame changed it
};

class Card final : private EventSink, private FrameSink {
 public:
  explicit Card(const CardPlan& plan);
  ~Card() override;
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  // The plan's regions, and the queue pairs and receives that are there from the start. What can't
  // be had is told.
  std::vector<std::string> set_up();
  // Before the frame of this number is received: queue pairs that begin with it.
  void start_queues(std::size_t frame, Time now);
  // Posts a receive of the plan's length, unless one waits already.
  void supply_receive(std::uint32_t qpn);
  // Answers a question of the plan as the console would.
  std::string answer(const std::string& question);
  // A frame comes, for queue pair `qpn` as far as it can be read; all that follows from it happens.
  Fate receive(std::span<const std::byte> frame, std::uint32_t qpn, Time now);

  [[nodiscard]] const CardPlan& plan() const { return plan_; }

 private:
  struct End {
    explicit End(QpConfig config);
    Queues queues;
    Qp qp;
    std::deque<abi::Cqe> completions;  // of receives, until fetched
  };

  void announce(AsyncEvent event, std::uint32_t object) override;
  void report(const FailureReport& report) override;
  bool take(std::uint16_t port, std::span<const std::byte> frame) override;
  bool take_mad(std::uint16_t port, std::span<const std::byte> frame, const Gid& sender) override;

  [[nodiscard]] static std::uint32_t keys_for(const CardPlan& plan);
  void add_regions(std::vector<std::string>& problems);
  void make_queue(const QueuePlan& queue, Time now);
  End* end_of(std::uint32_t qpn);
  End* end_of(const std::string& name);
  [[nodiscard]] Result<std::string> memory(console::Words& words) const;
  Result<std::string> show(console::Words& words);
  Result<std::string> poll(console::Words& words);
  Result<std::string> event(console::Words& words);
  [[nodiscard]] Result<std::string> counters(console::Words& words) const;

  const CardPlan& plan_;
  ReplayPort port_;
  Quiescence quiescence_;
  KeyTable keys_;
  std::uint32_t supplied_key_ = 0;
  std::shared_ptr<Memory> supplied_;
  std::unique_ptr<Worker> worker_;
  std::deque<AsyncEvent> events_;
  std::map<std::uint32_t, std::unique_ptr<End>> ends_;  // by number
  std::multimap<std::size_t, const QueuePlan*> later_;  // by the frame with which they begin
  Fate* fate_ = nullptr;                                // of the frame that is being received
};

}  // namespace uroce::replay
