// What loss costs: two engines over a link of 25 Gb/s in virtual time, so that the figures are the
// same on every machine. Goodput of 64 KiB messages, 16 of them outstanding, with loss in both
// directions, against the same without loss; and how late a small WRITE gets.
//
//   build/tests/bench/loss_bench [--json] [--brief]

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/bench/timed_link.h"
#include "tests/sim/node.h"

namespace uroce::bench {
namespace {

using abi::WrOpcode;

constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kBulkBytes = 64U << 10U;
constexpr std::uint32_t kSmallBytes = 8;
constexpr std::uint32_t kMtu = 4'096;
constexpr Duration kRoundTrip = 50 * kNanosecondsPerMicrosecond;
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
};

struct Result {
  double bytes_per_us = 0;
  std::vector<Duration> latencies{};  // of each message, sorted
};

class LossRun {
 public:
  explicit LossRun(const Setting& setting) : setting_(setting) {
    TimedLinkConfig link;
    link.delay = setting.round_trip / 2;
    link.loss = setting.loss;
    auto [left, right] = make_timed_link(link);
    const std::size_t bytes = std::size_t{setting.depth} * setting.bytes + sim::Arena::kPage;
    a_ = std::make_unique<sim::Node>(std::move(left), Faults{}, "10.0.0.1", bytes, 0,
                                     setting.sender);
    b_ = std::make_unique<sim::Node>(std::move(right), Faults{}, "10.0.0.2", bytes, 0,
                                     setting.receiver);
    const QueuesConfig queues{.send_entries = kDepth, .recv_entries = 4 * kDepth};
    a_end_ = &a_->add_end(17, queues, true);
    b_end_ = &b_->add_end(117, queues, true);
    connect();
  }

  Result run() {
    Result result;
    std::vector<Time> posted(kDepth);
    std::uint64_t done = 0;
    std::uint64_t sent = 0;
    std::uint64_t receives = 0;
    while (now_ < setting_.length) {
      for (; takes_receives() && receives < done + 2 * kDepth; ++receives) {
        post_receive(receives);
      }
      for (; sent < done + setting_.depth; ++sent) {
        posted[sent % kDepth] = now_;
        post(sent);
      }
      const bool busy = turn();
      while (const auto cqe = a_end_->queues.poll_send()) {
        UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
        result.latencies.push_back(now_ - posted[done % kDepth]);
        ++done;
      }
      while (b_end_->queues.poll_recv().has_value()) {
      }
      pass(busy);
    }
    result.bytes_per_us =
        1e3 * static_cast<double>(done * setting_.bytes) / static_cast<double>(setting_.length);
    std::sort(result.latencies.begin(), result.latencies.end());
    return result;
  }

 private:
  void connect() {
    QpAttributes to_b;
    to_b.path_mtu = kMtu;
    to_b.access = kAccessRemoteWrite | kAccessRemoteRead;
    to_b.max_rd_atomic = kDepth;
    to_b.max_dest_rd_atomic = kDepth;
    to_b.min_rnr_timer = 1;
    to_b.timeout = 14;
    to_b.retry_cnt = 7;
    to_b.rnr_retry = 7;
    QpAttributes to_a = to_b;
    to_b.dest_qpn = b_end_->qp.config().qpn;
    to_b.path = a_->path_to(*b_);
    to_a.dest_qpn = a_end_->qp.config().qpn;
    to_a.path = b_->path_to(*a_);
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      to_b.state = to_a.state = state;
      a_->modify(*a_end_, to_b, ~0U, now_);
      b_->modify(*b_end_, to_a, ~0U, now_);
    }
  }

  [[nodiscard]] bool takes_receives() const { return setting_.opcode == WrOpcode::kSend; }

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
  std::unique_ptr<sim::Node> a_, b_;
  sim::End* a_end_ = nullptr;
  sim::End* b_end_ = nullptr;
};

class Figures {
 public:
  explicit Figures(bool brief) : brief_(brief) {}

  // Bytes in a microsecond.
  [[nodiscard]] double goodput(Setting setting) const { return run(setting).bytes_per_us; }

  [[nodiscard]] Result run(Setting setting) const {
    setting.length /= brief_ ? kBriefFactor : 1;
    return LossRun(setting).run();
  }

  void note(const std::string& name, double value) { figures_.emplace_back(name, value); }

  void print(bool json) const {
    for (std::size_t i = 0; i < figures_.size(); ++i) {
      const char* end = i + 1 < figures_.size() ? ",\n" : "}\n";
      std::printf(json ? "%s\"%s\": %.4g%s" : "%s%-32s %.4g%s", json ? (i == 0 ? "{" : " ") : "",
                  figures_[i].first.c_str(), figures_[i].second, json ? end : "\n");
    }
  }

 private:
  bool brief_;
  std::vector<std::pair<std::string, double>> figures_;
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

void measure_goodput(Figures* figures) {
  for (const Kind& kind : kKinds) {
    const double lossless = figures->goodput({.opcode = kind.opcode});
    figures->note(std::string(kind.name) + "_lossless_mb_s", lossless);
    for (const Loss& loss : kLosses) {
      // Long enough for several of the gaps that waiting for the timer makes.
      const double lossy = figures->goodput(
          {.opcode = kind.opcode, .loss = loss.probability, .length = kNanosecondsPerSecond});
      figures->note(std::string(kind.name) + "_of_lossless_" + loss.name, lossy / lossless);
    }
  }
}

// Against everything sent again from the first lost packet on, and against a peer that keeps
// nothing, with which nothing must get worse.
void measure_go_back_n(Figures* figures) {
  const auto write = [&](double loss, Recovery sender, Recovery receiver) {
    return figures->goodput(
        {.loss = loss, .length = kNanosecondsPerSecond, .sender = sender, .receiver = receiver});
  };
  for (const Loss& loss : {kLosses[1], kLosses[2]}) {
    const double before = write(loss.probability, Recovery::kGoBackN, Recovery::kGoBackN);
    const double now = write(loss.probability, Recovery::kSelective, Recovery::kSelective);
    figures->note(std::string("write_of_go_back_n_") + loss.name, now / before);
    if (loss.probability == kLosses[1].probability) {
      const double with_old = write(loss.probability, Recovery::kSelective, Recovery::kGoBackN);
      figures->note("gbn_peer_of_before", with_old / before);
    }
  }
}

// How much later than without loss the 8-byte WRITE is that 999 of 1,000 beat.
void measure_late(Figures* figures) {
  const auto late = [&](double loss) {
    const Result result = figures->run(
        {.bytes = kSmallBytes, .depth = 1, .loss = loss, .length = 2 * kNanosecondsPerSecond});
    return static_cast<double>(result.latencies[result.latencies.size() * 999 / 1'000]) / 1e3;
  };
  figures->note("late_8b_extra_us", late(0.01) - late(0));
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using namespace uroce::bench;
  const auto has = [&](const char* flag) {
    return std::any_of(argv + 1, argv + argc,
                       [&](const char* argument) { return std::strcmp(argument, flag) == 0; });
  };
  Figures figures(has("--brief"));
  measure_goodput(&figures);
  measure_go_back_n(&figures);
  measure_late(&figures);
  figures.print(has("--json"));
  return 0;
}
