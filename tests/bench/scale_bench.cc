// The cost of many queue pairs: a message over N of them, N from 10 to 10,000; creating and
// connecting them; the daemon's memory. One program, one daemon on its loopback, all queue pairs
// made at the start, so that the compared figures are measured side by side. And two workers
// against one.
//
// A message is measured in two ways. With 64 outstanding in total, over the queue pairs in turn:
// with many of them each has one, and is cold in the caches when its turn comes. And, "_each_6",
// with six outstanding on each, so that all of them are busy all the time: 6 N in total.
//
//   build/tests/bench/scale_bench [--json] [--brief] [--workers]
//   build/tests/bench/scale_bench --profile N
//
// --workers: only the last one, without a daemon beside it. --profile: only 8-byte messages over N
// pairs in the first way, a line a round, for a profiler or for comparing two builds.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/bench/parts/card.h"
#include "tests/bench/parts/figures.h"
#include "tests/bench/parts/worker_lanes.h"

namespace uroce::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWindow = 64;      // work requests outstanding
constexpr std::uint32_t kDepth = kWindow;  // of each queue pair: the worst case of turns
constexpr std::uint32_t kEach = 6;         // outstanding on each queue pair in the second way
constexpr std::uint32_t kTimesAsMany = 5;  // messages there, so that each queue pair has many
constexpr int kRounds = 9;
constexpr int kSetUps = 3;
constexpr int kProfileRounds = 300;
constexpr std::size_t kBytesMax = 4'096;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A process's private memory: rings are shared with their program, and aren't included.
double private_bytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (double kib = 0; word == "RssAnon:" && status >> kib) {
      return 1024 * kib;
    }
  }
  return 0;
}

std::vector<std::uint32_t> sizes_to(std::uint32_t pairs) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = 10; size <= pairs; size *= 10) {
    sizes.push_back(size);
  }
  return sizes;
}

class ScaleBench {
 public:
  // `sizes`: the numbers of pairs that are compared, ascending.
  ScaleBench(pid_t daemon, std::vector<std::uint32_t> sizes, std::uint32_t messages)
      : daemon_(daemon), messages_(messages), sizes_(std::move(sizes)) {}
  ~ScaleBench() {
    pairs_.clear();
    region_.reset();
    ibv_destroy_cq(cq_);
  }

  // Only 8-byte messages over all pairs.
  void profile() {
    connect();
    for (int round = 0; round < kProfileRounds; ++round) {
      std::printf("%.1f ns per message\n", cost(sizes_.back(), 8));
    }
  }

  Figures run() {
    set_up();
    measure_both("", &ScaleBench::cost);
    connect(kEach * sizes_.back());
    measure_both("_each_6", &ScaleBench::cost_each);
    return figures_;
  }

 private:
  // The median of three times: in a virtual machine the host provides memory only when it is first
  // touched, at about 14 us per page, whichever process touches it.
  void set_up() {
    weigh();
    std::vector<double> times;
    for (int round = 0; round < kSetUps; ++round) {
      pairs_.clear();
      const Clock::time_point start = Clock::now();
      connect();
      times.push_back(us_since(start) / sizes_.back());
    }
    figures_.note("setup_us_per_pair", median(times));
    figures_.note("setup_us_per_pair_first", times.front());
  }

  // Makes all pairs anew, with a completion queue of that size.
  void connect(std::uint32_t completions) {
    pairs_.clear();
    ibv_destroy_cq(cq_);
    cq_ = ibv_create_cq(card_.context(), static_cast<int>(completions), nullptr, nullptr, 0);
    connect();
  }
  void connect() {
    for (std::uint32_t i = 0; i < sizes_.back(); ++i) {
      pairs_.push_back(std::make_unique<BenchPair>(card_, kDepth, cq_));
    }
  }

  // A queue pair's memory beyond its rings, measured with rings for one work request.
  void weigh() {
    std::vector<std::unique_ptr<BenchPair>> small;
    const std::uint32_t count = sizes_.back() / 10;
    const double before = private_bytes(daemon_);
    for (std::uint32_t i = 0; i < count; ++i) {
      small.push_back(std::make_unique<BenchPair>(card_, 1, cq_));
    }
    figures_.note("bytes_per_qp", (private_bytes(daemon_) - before) / (2.0 * count));
  }

  // Nanoseconds per message over the first `count` pairs in turn, with kWindow outstanding in
  // total.
  double cost(std::uint32_t count, std::uint32_t bytes) {
    std::uint32_t posted = 0;
    const Clock::time_point start = Clock::now();
    for (std::uint32_t done = 0; done < messages_;) {
      for (; posted < messages_ && posted - done < kWindow; ++posted) {
        pairs_[posted % count]->post_write(*region_, 0, *region_, kBytesMax, bytes);
      }
      done += reap([](std::uint64_t) {});
    }
    return 1000 * us_since(start) / messages_;
  }

  // The same with kEach outstanding on each: each completion leads to a new post. The time starts
  // once as many have completed as are outstanding, and ends while all pairs are still busy.
  double cost_each(std::uint32_t count, std::uint32_t bytes) {
    const auto post = [this, bytes](std::uint64_t pair) {
      pairs_[pair]->post_write(*region_, 0, *region_, kBytesMax, bytes, pair);
    };
    const auto complete = [this](std::uint32_t messages, const auto& completed) {
      std::uint32_t done = 0;
      while (done < messages) {
        done += reap(completed);
      }
      return done;
    };
    const std::uint32_t under_way = kEach * count;
    for (std::uint32_t i = 0; i < under_way; ++i) {
      post(i / kEach);
    }
    complete(under_way, post);
    const Clock::time_point start = Clock::now();
    const std::uint32_t done = complete(kTimesAsMany * messages_, post);
    const double ns = 1000 * us_since(start) / done;
    complete(under_way, [](std::uint64_t) {});
    return ns;
  }

  // Polls up to kWindow completions; none has an error. `completed` gets their wr_id.
  template <typename Completed>
  std::uint32_t reap(const Completed& completed) {
    std::array<ibv_wc, kWindow> completions;
    const int reaped = ibv_poll_cq(cq_, kWindow, completions.data());
    UROCE_CHECK(reaped >= 0);
    for (const ibv_wc& one : std::span(completions).first(static_cast<std::size_t>(reaped))) {
      UROCE_CHECK(one.status == IBV_WC_SUCCESS);
      completed(one.wr_id);
    }
    return static_cast<std::uint32_t>(reaped);
  }

  // Nanoseconds per message of so many bytes over so many pairs.
  using Cost = double (ScaleBench::*)(std::uint32_t count, std::uint32_t bytes);

  void measure_both(const std::string& way, Cost measured) {
    measure(8, "8b", way, measured);
    measure(4'096, "4k", way, measured);
  }

  // All numbers of pairs, in turn.
  void measure(std::uint32_t bytes, const std::string& name, const std::string& way,
               Cost measured) {
    std::vector<std::vector<double>> costs(sizes_.size());
    for (int round = -1; round < kRounds; ++round) {
      for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const double ns = (this->*measured)(sizes_[i], bytes);
        if (round >= 0) {  // the first one warms up
          costs[i].push_back(ns);
        }
      }
    }
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      figures_.note("ns_per_" + name + "_over_" + std::to_string(sizes_[i]) + way,
                    median(costs[i]));
    }
    figures_.note("cost_" + std::to_string(sizes_.back()) + "_of_10_" + name + way,
                  median(costs.back()) / median(costs.front()));
  }

  pid_t daemon_;
  std::uint32_t messages_;  // per round
  std::vector<std::uint32_t> sizes_;
  BenchCard card_;
  ibv_cq* cq_ = ibv_create_cq(card_.context(), 2 * kWindow, nullptr, nullptr, 0);
  Pages pages_{2 * kBytesMax};
  RegionHandle region_{card_.register_range(pages_.data(), pages_.length(), false)};
  std::vector<std::unique_ptr<BenchPair>> pairs_;
  Figures figures_;
};

// The throughput of two workers relative to one; one and two alternate.
void compare_workers(bool brief, Figures* figures) {
  const Duration round = (brief ? 5 : 100) * kNanosecondsPerMillisecond;
  WorkerLanes one(1), two(2);
  for (const auto& [bytes, name] : {std::pair{8U, "8b"}, std::pair{65'536U, "64k"}}) {
    std::vector<double> rates, ratios;
    for (int i = 0; i < kRounds; ++i) {
      rates.push_back(one.run(bytes, round));
      ratios.push_back(two.run(bytes, round) / rates.back());
    }
    figures->note("one_worker_" + std::string(name) + "_per_second", median(rates));
    figures->note("two_workers_of_one_" + std::string(name), median(ratios));
  }
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using uroce::bench::has_flag;
  const bool brief = has_flag(argc, argv, "--brief");
  uroce::bench::Figures figures;
  if (!has_flag(argc, argv, "--workers")) {
    // The path in the build tree, relative to this program.
    const uroce::bench::BenchDaemon daemon(
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../apps/uroced");
    constexpr std::uint32_t kMessages = 30'000;
    if (argc == 3 && std::strcmp(argv[1], "--profile") == 0) {
      const auto pairs = static_cast<std::uint32_t>(std::clamp(std::atoi(argv[2]), 1, 10'000));
      uroce::bench::ScaleBench(daemon.pid(), {pairs}, kMessages).profile();
      return 0;
    }
    uroce::bench::ScaleBench bench(daemon.pid(), uroce::bench::sizes_to(brief ? 100 : 10'000),
                                   brief ? 200 : kMessages);
    figures = bench.run();
  }
  uroce::bench::compare_workers(brief, &figures);
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
