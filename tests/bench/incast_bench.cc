// Many senders to one receiver behind a narrow link: fairness, utilisation, queue length. In
// virtual time, so the figures are the same on every machine.
//
//   build/tests/bench/incast_bench [--json] [--brief]
//
// 8 senders of 64 KiB WRITEs into 2 Gb/s, round trip 50 us; the queue marks between 100 and 400 KB
// (pmax 0.2) and drops at 4 MB. Then 100 senders; then one beside a TCP sender (CUBIC) in a queue
// of 400 KB, and in one of 4 MB; and the 8 again with a queue that doesn't mark, by delay, and
// without congestion control for comparison.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/parts/cubic_flow.h"
#include "tests/bench/parts/fabric.h"
#include "tests/bench/parts/figures.h"
#include "tests/sim/node.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kMtu = 4'096;
constexpr std::uint32_t kMessage = 64U << 10U;
constexpr std::uint32_t kDepth = 16;
constexpr std::uint64_t kRate = 2'000'000'000;
constexpr std::uint64_t kKmax = 400'000;
constexpr Duration kTurn = kNanosecondsPerMicrosecond;
constexpr Duration kSample = 10 * kNanosecondsPerMicrosecond;

struct Setting {
  std::uint32_t flows = 8;
  std::uint64_t queue = 10 * kKmax;
  bool marks = true;
  bool beside_cubic = false;
  CongestionMode mode = CongestionMode::kDcqcn;
  Duration length = 200 * kNanosecondsPerMillisecond;
};

struct Outcome {
  double jain = 0;         // of the flows' goodput in the second half
  double utilisation = 0;  // of the narrow link, by the goodput of all
  double queue_p99 = 0;    // bytes
  double share = 0;        // of the first flow, relative to its fair share
  std::uint64_t drops = 0;
  std::uint64_t failed = 0;  // work requests
};

class Incast {
 public:
  explicit Incast(const Setting& setting)
      : setting_(setting),
        fabric_({.hosts = setting.flows + 1,
                 .narrow = {.rate = kRate,
                            .queue = setting.queue,
                            .kmin = setting.marks ? kKmax / 4 : 0,
                            .kmax = setting.marks ? kKmax : 0,
                            .pmax = 0.2}}),
        cubic_(fabric_.narrow(), FabricConfig{}.delay) {
    congestion_.mode = setting.mode;
    const std::size_t bytes = std::size_t{kMessage} + sim::Arena::kPage;
    receiver_ = make_node(0, bytes);
    for (std::uint32_t i = 1; i <= setting.flows; ++i) {
      senders_.push_back(make_node(i, bytes));
      connect(*senders_.back(), i);
    }
    done_.resize(setting.flows);
    done_before_.resize(setting.flows);
  }

  Outcome run() {
    std::vector<std::uint64_t> queue;
    std::uint64_t failed = 0;
    bool half = false;
    for (Time next_sample = 0; now_ < setting_.length;) {
      if (!half && now_ >= setting_.length / 2) {
        half = true;
        done_before_ = done_;
      }
      for (; next_sample <= now_; next_sample += kSample) {
        queue.push_back(fabric_.narrow().backlog(next_sample));
      }
      if (setting_.beside_cubic) {
        cubic_.act(now_);
      }
      for (std::uint32_t i = 0; i < setting_.flows; ++i) {
        post(i);
        senders_[i]->worker->poll(now_);
        while (const auto cqe = ends_[i]->queues.poll_send()) {
          failed += cqe->status == abi::WcStatus::kSuccess ? 0 : 1;
          ++done_[i];
        }
      }
      receiver_->worker->poll(now_);
      now_ += kTurn;
    }
    return outcome(queue, failed);
  }

 private:
  std::unique_ptr<sim::Node> make_node(std::uint32_t host, std::size_t bytes) {
    auto node = std::make_unique<sim::Node>(fabric_.port(host), Faults{},
                                            "10.0.0." + std::to_string(host + 1), bytes);
    if (congestion_.mode != CongestionMode::kNone) {
      node->share_network(congestion_);
    }
    return node;
  }

  void connect(sim::Node& sender, std::uint32_t number) {
    const QueuesConfig queues{.send_entries = kDepth, .recv_entries = 1, .cq_entries = 2 * kDepth};
    sim::End& from = sender.add_end(17, queues, true);
    sim::End& to = receiver_->add_end(100 + number, queues, true);
    QpAttributes attributes;
    attributes.path_mtu = kMtu;
    attributes.access = kAccessRemoteWrite;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    sim::connect(sender, from, attributes, *receiver_, to, attributes, now_);
    ends_.push_back(&from);
    posted_.push_back(0);
  }

  void post(std::uint32_t flow) {
    const sim::Node& sender = *senders_[flow];
    for (; posted_[flow] < done_[flow] + kDepth; ++posted_[flow]) {
      abi::SendWr wr{};
      wr.opcode = abi::WrOpcode::kRdmaWrite;
      wr.flags = abi::kSignaled;
      wr.remote_address = receiver_->arena.address(0);
      wr.rkey = receiver_->key;
      const abi::Sge sge{sender.arena.address(0), kMessage, sender.key};
      ends_[flow]->queues.post_send(wr, {&sge, 1});
      senders_[flow]->ring(*ends_[flow]);
    }
  }

  Outcome outcome(std::vector<std::uint64_t>& queue, std::uint64_t failed) const {
    std::sort(queue.begin(), queue.end());
    double sum = 0;
    double squares = 0;
    double all = static_cast<double>(setting_.beside_cubic ? cubic_.bytes() : 0);
    for (std::uint32_t i = 0; i < setting_.flows; ++i) {
      const auto goodput = static_cast<double>(done_[i] - done_before_[i]) * kMessage;
      sum += goodput;
      squares += goodput * goodput;
      all += static_cast<double>(done_[i]) * kMessage;
    }
    const double capacity = static_cast<double>(kRate) / 8e9 * static_cast<double>(setting_.length);
    const double sharers = setting_.flows + (setting_.beside_cubic ? 1 : 0);
    return {.jain = squares == 0 ? 0 : sum * sum / (setting_.flows * squares),
            .utilisation = all / capacity,
            .queue_p99 = static_cast<double>(queue[queue.size() * 99 / 100]),
            .share = static_cast<double>(done_[0]) * kMessage * sharers / capacity,
            .drops = fabric_.dropped(),
            .failed = failed};
  }

  Setting setting_;
  CongestionSettings congestion_;
  Fabric fabric_;
  CubicFlow cubic_;
  Time now_ = 0;
  std::unique_ptr<sim::Node> receiver_;
  std::vector<std::unique_ptr<sim::Node>> senders_;
  std::vector<sim::End*> ends_;
  std::vector<std::uint64_t> posted_, done_, done_before_;  // messages, index: flow
};

void measure(bool brief, Figures* figures) {
  const auto run = [brief](Setting setting) {
    setting.length /= brief ? 4 : 1;
    return Incast(setting).run();
  };
  const auto note = [&](const std::string& name, double value) { figures->note(name, value); };
  const Outcome eight = run({});
  note("jain", eight.jain);
  note("utilisation", eight.utilisation);
  note("queue_p99_of_kmax", eight.queue_p99 / kKmax);
  note("drops", static_cast<double>(eight.drops));
  const Outcome many = run({.flows = 100});
  note("incast_100_failed", static_cast<double>(many.failed));
  note("incast_100_utilisation", many.utilisation);
  note("incast_100_jain", many.jain);
  note("incast_100_drops", static_cast<double>(many.drops));
  const Outcome beside =
      run({.flows = 1, .queue = kKmax, .beside_cubic = true, .length = 2 * kNanosecondsPerSecond});
  note("share_beside_cubic", beside.share);
  note("utilisation_beside_cubic", beside.utilisation);
  const Outcome deep = run({.flows = 1, .beside_cubic = true, .length = 2 * kNanosecondsPerSecond});
  note("share_beside_cubic_deep", deep.share);
  const Outcome delay = run({.marks = false, .mode = CongestionMode::kDelay});
  note("delay_jain", delay.jain);
  note("delay_utilisation", delay.utilisation);
  note("delay_queue_p99_of_kmax", delay.queue_p99 / kKmax);
  note("delay_drops", static_cast<double>(delay.drops));
  // A switch that drops and doesn't mark, in the default mode.
  const Outcome unmarked = run({.queue = kKmax, .marks = false});
  note("unmarked_jain", unmarked.jain);
  note("unmarked_utilisation", unmarked.utilisation);
  note("unmarked_drops", static_cast<double>(unmarked.drops));
  const Outcome unmarked_many = run({.flows = 100, .queue = kKmax, .marks = false});
  note("unmarked_100_failed", static_cast<double>(unmarked_many.failed));
  note("unmarked_100_utilisation", unmarked_many.utilisation);
  const Outcome none = run({.mode = CongestionMode::kNone});
  note("none_jain", none.jain);
  note("none_utilisation", none.utilisation);
  note("none_queue_p99_of_kmax", none.queue_p99 / kKmax);
  note("none_drops", static_cast<double>(none.drops));
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;
  Figures figures;
  measure(has_flag(argc, argv, "--brief"), &figures);
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
