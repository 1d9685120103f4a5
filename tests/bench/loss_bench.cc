// The cost of loss: two engines over a link of 25 Gb/s in virtual time, so that the figures are the
// same on every machine. Goodput of 64 KiB messages, 16 of them outstanding, with loss in both
// directions, relative to the same without loss; the extra delay of a small WRITE; and what a
// receiver that is slower than its sender costs, by RNR NAKs.
//
//   build/tests/bench/loss_bench [--json] [--brief]

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/parts/figures.h"
#include "tests/bench/parts/timed_link.h"
#include "tests/sim/node.h"

namespace uroce::bench {
namespace {

using abi::WrOpcode;

constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kBulkBytes = 64U << 10U;
constexpr std::uint32_t kSmallBytes = 8;
constexpr std::uint32_t kMtu = 4'096;
constexpr Duration kShortRoundTrip = 10 * kNanosecondsPerMicrosecond;
constexpr Duration kRoundTrip = 50 * kNanosecondsPerMicrosecond;
// A long path: as much is posted as the peer may buffer besides a window, or the program itself
// would wait for each repair.
constexpr Duration kLongRoundTrip = 10 * kNanosecondsPerMillisecond;
constexpr std::uint32_t kLongDepth = 64;
constexpr Duration kBatchPause = 30 * kNanosecondsPerMicrosecond;
constexpr Duration kTurn = 500;  // ns: of a worker that has something to do
constexpr Duration kBriefFactor = 10;

struct Setting {
  WrOpcode opcode = WrOpcode::kRdmaWrite;
  std::uint32_t bytes = kBulkBytes;
  std::uint32_t depth = kDepth;
  double loss = 0;
  Duration round_trip = kRoundTrip;
  Duration length = 200 * kNanosecondsPerMillisecond;
  Recovery sender = Recovery::kSelective;
  Recovery receiver = Recovery::kSelective;
  bool network = false;  // shared with others: the window begins with 32 KiB
  // How a receiver's program posts. 0: as soon as there is room.
  Duration receive_every = 0;
  std::uint32_t receive_batch = 0;  // so many at once, kBatchPause after it has used the last
};

struct Result {
  double bytes_per_us = 0;
  double sent_of_needed = 0;          // request packets, relative to those sent for the first time
  std::vector<Duration> latencies{};  // of each message, sorted
};

class LossRun {
 public:
  explicit LossRun(const Setting& setting) : setting_(setting), posted_at_(setting.depth) {
    TimedLinkConfig link;
    link.delay = setting.round_trip / 2;
    link.loss = setting.loss;
    auto [left, right] = make_timed_link(link);
    const std::size_t bytes = std::size_t{setting.depth} * setting.bytes + sim::Arena::kPage;
    a_ = std::make_unique<sim::Node>(std::move(left), Faults{}, "10.0.0.1", bytes, 0,
                                     setting.sender);
    b_ = std::make_unique<sim::Node>(std::move(right), Faults{}, "10.0.0.2", bytes, 0,
                                     setting.receiver);
    if (setting.network) {
      a_->share_network(kDefaultCongestion);
      b_->share_network(kDefaultCongestion);
    }
    const QueuesConfig queues{.send_entries = setting.depth, .recv_entries = 4 * setting.depth};
    a_end_ = &a_->add_end(17, queues, true);
    b_end_ = &b_->add_end(117, queues, true);
    connect();
  }

  Result run() {
    Result result;
    while (now_ < setting_.length) {
      post_all();
      const bool busy = turn();
      take_completions(&result);
      pass(busy);
    }
    result.bytes_per_us =
        1e3 * static_cast<double>(done_ * setting_.bytes) / static_cast<double>(setting_.length);
    const RoceCounters& counters = a_end_->qp.counters();
    result.sent_of_needed = 1 + static_cast<double>(counters.requests_resent) /
                                    static_cast<double>(counters.requests_sent);
    std::sort(result.latencies.begin(), result.latencies.end());
    return result;
  }

 private:
  void connect() {
    QpAttributes attributes;
    attributes.path_mtu = kMtu;
    attributes.access = kAccessRemoteWrite | kAccessRemoteRead;
    attributes.max_rd_atomic = kDepth;
    attributes.max_dest_rd_atomic = kDepth;
    attributes.min_rnr_timer = 1;
    attributes.timeout = 14;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    sim::connect(*a_, *a_end_, attributes, *b_, *b_end_, attributes, now_);
  }

  void post_all() {
    for (; receives_ < receives_wanted(); ++receives_) {
      post_receive(receives_);
    }
    for (; sent_ < done_ + setting_.depth; ++sent_) {
      posted_at_[sent_ % posted_at_.size()] = now_;
      post(sent_);
    }
  }

  // How many receives the program has posted by now.
  [[nodiscard]] std::uint64_t receives_wanted() const {
    if (setting_.opcode != WrOpcode::kSend) {
      return 0;
    }
    if (const std::uint64_t batch = setting_.receive_batch; batch != 0) {
      const bool pauses = used_ != 0 && now_ < used_at_ + kBatchPause;
      return (used_ / batch + (pauses ? 0 : 1)) * batch;
    }
    const std::uint64_t room = done_ + 2 * std::uint64_t{setting_.depth};
    return setting_.receive_every == 0 ? room : std::min(room, now_ / setting_.receive_every);
  }

  void take_completions(Result* result) {
    while (const auto cqe = a_end_->queues.poll_send()) {
      UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
      result->latencies.push_back(now_ - posted_at_[done_ % posted_at_.size()]);
      ++done_;
    }
    while (b_end_->queues.poll_recv().has_value()) {
      ++used_;
      used_at_ = now_;
    }
  }

  void post(std::uint64_t number) {
    const std::size_t offset = number % setting_.depth * setting_.bytes;
    abi::SendWr wr{};
    wr.wr_id = number;
    wr.opcode = setting_.opcode;
    wr.flags = abi::kSignaled;
    wr.remote_address = b_->arena.address(offset);
    wr.rkey = b_->key;
    const abi::Sge sge{a_->arena.address(offset), setting_.bytes, a_->key};
    a_end_->queues.post_send(wr, {&sge, 1});
    a_->ring(*a_end_);
  }

  void post_receive(std::uint64_t number) {
    const std::size_t offset = number % setting_.depth * setting_.bytes;
    const abi::Sge sge{b_->arena.address(offset), setting_.bytes, b_->key};
    b_end_->queues.post_recv(number, {&sge, 1});
  }

  bool turn() {
    const bool busy = a_->worker->poll(now_);
    return b_->worker->poll(now_) || busy;
  }

  void pass(bool busy) {
    const Time next = std::min(a_->worker->next_deadline(), b_->worker->next_deadline());
    now_ = busy || next < now_ + kTurn ? now_ + kTurn : std::min(next, setting_.length);
  }

  Setting setting_;
  Time now_ = 0;
  std::vector<Time> posted_at_;  // of the messages that are under way
  std::uint64_t sent_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t receives_ = 0;  // posted
  std::uint64_t used_ = 0;      // of those
  Time used_at_ = 0;            // the last of them
  std::unique_ptr<sim::Node> a_, b_;
  sim::End* a_end_ = nullptr;
  sim::End* b_end_ = nullptr;
};

class Bench {
 public:
  explicit Bench(bool brief) : brief_(brief) {}

  // Bytes per microsecond.
  [[nodiscard]] double goodput(Setting setting) const { return run(setting).bytes_per_us; }

  [[nodiscard]] Result run(Setting setting) const {
    setting.length /= brief_ ? kBriefFactor : 1;
    return LossRun(setting).run();
  }

  Figures figures;

 private:
  bool brief_;
};

struct Loss {
  const char* name;
  double probability;
};
constexpr Loss kLosses[] = {{"01pct", 0.001}, {"1pct", 0.01}, {"5pct", 0.05}};

struct Kind {
  const char* name;
  WrOpcode opcode;
};
constexpr Kind kKinds[] = {
    {"write", WrOpcode::kRdmaWrite}, {"read", WrOpcode::kRdmaRead}, {"send", WrOpcode::kSend}};

void measure_goodput(Bench* bench) {
  for (const Kind& kind : kKinds) {
    const double lossless = bench->goodput({.opcode = kind.opcode});
    bench->figures.note(std::string(kind.name) + "_lossless_mb_s", lossless);
    for (const Loss& loss : kLosses) {
      // Long enough to contain several waits for the retransmission timer.
      const double lossy = bench->goodput(
          {.opcode = kind.opcode, .loss = loss.probability, .length = kNanosecondsPerSecond});
      bench->figures.note(std::string(kind.name) + "_of_lossless_" + loss.name, lossy / lossless);
    }
  }
}

// Compared with go-back-N, which sends everything again from the first lost packet on; and with a
// peer that buffers nothing, with which nothing may get worse.
void measure_go_back_n(Bench* bench) {
  const auto write = [&](double loss, Recovery sender, Recovery receiver) {
    return bench->goodput(
        {.loss = loss, .length = kNanosecondsPerSecond, .sender = sender, .receiver = receiver});
  };
  for (const Loss& loss : {kLosses[1], kLosses[2]}) {
    const double before = write(loss.probability, Recovery::kGoBackN, Recovery::kGoBackN);
    const double now = write(loss.probability, Recovery::kSelective, Recovery::kSelective);
    bench->figures.note(std::string("write_of_go_back_n_") + loss.name, now / before);
    if (loss.probability == kLosses[1].probability) {
      const double with_old = write(loss.probability, Recovery::kSelective, Recovery::kGoBackN);
      bench->figures.note("gbn_peer_of_before", with_old / before);
    }
  }
}

// As on a port that shares its network, to a peer that buffers nothing.
void measure_network(Bench* bench) {
  const auto write = [&](double loss) {
    return bench->goodput({.loss = loss,
                           .length = kNanosecondsPerSecond,
                           .receiver = Recovery::kGoBackN,
                           .network = true});
  };
  const double lossless = write(0);
  for (const Loss& loss : {kLosses[1], kLosses[2]}) {
    bench->figures.note(std::string("network_write_to_gbn_peer_of_lossless_") + loss.name,
                        write(loss.probability) / lossless);
  }
}

void measure_long(Bench* bench) {
  const auto write = [&](std::uint32_t depth, double loss) {
    return bench->goodput({.depth = depth,
                           .loss = loss,
                           .round_trip = kLongRoundTrip,
                           .length = 10 * kNanosecondsPerSecond});
  };
  const double lossless = write(kLongDepth, 0);
  bench->figures.note("long_write_lossless_mb_s", lossless);
  bench->figures.note("long_write_of_lossless_1pct", write(kLongDepth, 0.01) / lossless);
  bench->figures.note("long_write_16_deep_of_lossless_1pct",
                      write(kDepth, 0.01) / write(kDepth, 0));
}

// How much the 99.9th percentile of 8-byte WRITEs grows with loss.
void measure_late(Bench* bench) {
  const auto late = [&](double loss) {
    const Result result = bench->run(
        {.bytes = kSmallBytes, .depth = 1, .loss = loss, .length = 2 * kNanosecondsPerSecond});
    return static_cast<double>(result.latencies[result.latencies.size() * 999 / 1'000]) / 1e3;
  };
  bench->figures.note("late_8b_extra_us", late(0.01) - late(0));
}

// Receivers whose programs post one receive at a time, more seldom than the link carries messages,
// or batches. Each missing one is an RNR NAK, with the shortest timer.
void measure_slow_receiver(Bench* bench) {
  for (const Duration us : {100, 1'000}) {
    const Result result = bench->run({.opcode = WrOpcode::kSend,
                                      .length = kNanosecondsPerSecond,
                                      .receive_every = us * kNanosecondsPerMicrosecond});
    const std::string name = "slow_receiver_" + std::to_string(us) + "us_";
    bench->figures.note(name + "of_its_rate",
                        result.bytes_per_us * static_cast<double>(us) / kBulkBytes);
    bench->figures.note(name + "sent_of_needed", result.sent_of_needed);
  }
  for (const std::uint32_t batch : {8U, 128U}) {
    for (const Duration round_trip : {kShortRoundTrip, kRoundTrip, kRoundTrip * 20}) {
      const Result result = bench->run({.opcode = WrOpcode::kSend,
                                        .bytes = kMtu,
                                        .depth = 256,
                                        .round_trip = round_trip,
                                        .length = kNanosecondsPerSecond,
                                        .receive_batch = batch});
      const std::string name = "batches_of_" + std::to_string(batch) + "_" +
                               std::to_string(round_trip / kNanosecondsPerMicrosecond) + "us_";
      bench->figures.note(name + "mb_s", result.bytes_per_us);
      bench->figures.note(name + "sent_of_needed", result.sent_of_needed);
    }
  }
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;
  Bench bench(has_flag(argc, argv, "--brief"));
  measure_goodput(&bench);
  measure_go_back_n(&bench);
  measure_network(&bench);
  measure_long(&bench);
  measure_late(&bench);
  measure_slow_receiver(&bench);
  bench.figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
