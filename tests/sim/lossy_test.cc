// The simulation of unreliable transports, UC and UD, between two nodes over many seeds.
// UROCE_SIM_SEEDS sets how many.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "dataplane/port/link_port.h"
#include "tests/sim/lossy_flow.h"
#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

constexpr std::uint64_t kSeedsDefault = 150;
constexpr std::uint64_t kTurnsMax = 100'000;
constexpr std::uint32_t kFlows = 3;
constexpr std::uint32_t kAh = 7;

class LossyWorld {
 public:
  explicit LossyWorld(std::uint64_t seed) : random_(seed) {
    static constexpr std::uint32_t kMtus[] = {256, 1'024, 4'096};
    mtu_ = random_.pick(kMtus);
    if (random_.chance(0.7)) {
      faults_ = {.loss = 0.05, .dup = 0.02, .reorder = 0.05, .corrupt = 0.02};
      faults_.delay = random_.range(0, 20'000);
      faults_.seed = random_.next();
    }
    LossyConfig flow;
    flow.datagrams = random_.chance(0.5);
    flow.messages = random_.range(1, 100);
    flow.message_bytes_max =
        flow.datagrams ? random_.range(64, mtu_) : random_.range(64, 12 * mtu_);
    flow.send_entries = 1U << random_.range(0, 5);
    flow.recv_entries = 64;
    flow.ah = kAh;
    auto [left, right] = make_link({});
    const std::size_t bytes = 4'096 + 2 * kFlows * LossyFlow::arena_bytes(flow);
    Faults other = faults_;
    other.seed = random_.next();
    a_ = std::make_unique<Node>(std::move(left), faults_, "10.0.0.1", bytes);
    b_ = std::make_unique<Node>(std::move(right), other, "10.0.0.2", bytes);
    for (Node* node : {a_.get(), b_.get()}) {
      node->add_address(kAh, node->path_to(node == a_.get() ? *b_ : *a_));
    }
    for (std::uint32_t i = 0; i < kFlows; ++i) {
      connect(i, flow);
    }
  }

  std::string run() {
    std::uint64_t turns = 0;
    for (bool over = false; !over;) {
      over = true;
      for (LossyFlow& flow : flows_) {
        flow.act();
        over &= flow.finished();
      }
      over &= !turn();
      for (LossyFlow& flow : flows_) {
        if (std::string wrong = flow.check(); !wrong.empty()) {
          return wrong;
        }
      }
      if (++turns > kTurnsMax) {
        return "never finishes";
      }
    }
    return check_end();
  }

 private:
  void connect(std::uint32_t index, const LossyConfig& flow) {
    const QueuesConfig queues{.send_entries = flow.send_entries, .recv_entries = flow.recv_entries};
    const QpType type = flow.datagrams ? QpType::kUd : QpType::kUc;
    End& a_end = a_->add_end(17 + index, queues, false, type);
    End& b_end = b_->add_end(117 + index, queues, false, type);
    QpAttributes attributes;
    attributes.path_mtu = mtu_;
    attributes.qkey = 0x5EED;
    attributes.sq_psn = 0xFF'FFF0;
    attributes.rq_psn = 0xFF'FFF0;
    sim::connect(*a_, a_end, attributes, *b_, b_end, attributes, now_);
    flows_.emplace_back(flow, 2 * index, random_, *a_, a_end, *b_, b_end);
    flows_.emplace_back(flow, 2 * index + 1, random_, *b_, b_end, *a_, a_end);
  }

  bool turn() {
    bool busy = a_->worker->poll(now_);
    busy |= b_->worker->poll(now_);
    const Time next = std::min(a_->worker->next_deadline(), b_->worker->next_deadline());
    now_ += 1'000;
    return busy || next != kNever;
  }

  std::string check_end() {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (const LossyFlow& flow : flows_) {
      sent += flow.sent();
      received += flow.received();
      if (!faults_.any() && flow.received() != flow.sent()) {
        return std::to_string(flow.sent() - flow.received()) +
               " messages are missing, though the link loses nothing";
      }
    }
    return received <= 2 * sent ? "" : "more came than can have been repeated";
  }

  Random random_;
  std::uint32_t mtu_ = 0;
  Faults faults_;
  Time now_ = 0;
  std::unique_ptr<Node> a_, b_;
  std::deque<LossyFlow> flows_;
};

TEST(LossySim, ArrivingMessagesAreCorrect) {
  const std::uint64_t count = Seeds{"UROCE_SIM_SEEDS", kSeedsDefault, {}}.count();
  for (std::uint64_t seed = Seeds::first(); seed < Seeds::first() + count; ++seed) {
    EXPECT_EQ(LossyWorld(seed).run(), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace uroce::sim
