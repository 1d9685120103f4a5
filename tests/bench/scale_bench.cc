// What many queue pairs cost: a message over N of them, N from 10 to 10,000; making and connecting
// them; the daemon's memory. One program, one daemon on its loopback, all of them there from the
// start, so that what is compared is measured side by side. And two workers against one.
//
// A message is measured in two ways. With 64 under way in all, over the queue pairs by turns: with
// many of them each has one, and is cold when its turn comes. And, "_each_6", with six under way in
// every queue pair, as perftest's -q has it: all of them are busy, and nothing but N changes.
//
//   build/tests/bench/scale_bench [--json] [--brief] [--workers]
//
// --workers: only the last, without a daemon beside it.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tests/bench/card.h"
#include "tests/bench/figures.h"
#include "tests/bench/worker_lanes.h"

namespace uroce::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWindow = 64;       // work requests under way
constexpr std::uint32_t kDepth = kWindow;   // of each queue pair: the worst case of turns
constexpr std::uint32_t kEach = 6;          // of each queue pair in the second way
constexpr std::uint32_t kMessagesEach = 5;  // times as many there, so that all have their turns
constexpr int kRounds = 9;
constexpr int kSetUps = 3;
constexpr std::size_t kBytesMax = 4'096;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a process has for itself alone: rings are shared with their program, and aren't in it.
double private_bytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (double kib = 0; word == "RssAnon:" && status >> kib) {
      return 1024 * kib;
    }
  }
  return 0;
}

class ScaleBench {
 public:
  ScaleBench(pid_t daemon, std::uint32_t pairs, std::uint32_t messages)
      : daemon_(daemon), messages_(messages), sizes_(sizes_to(pairs)) {}
  ~ScaleBench() {
    pairs_.clear();
    region_.reset();
    ibv_destroy_cq(cq_);
  }

  Figures run() {
    set_up();
    for (const auto& [bytes, name] : {std::pair{8U, "8b"}, std::pair{4'096U, "4k"}}) {
      measure(name, "", [this, bytes](std::uint32_t count) { return cost(count, bytes); });
      measure(name, "_each_6",
              [this, bytes](std::uint32_t count) { return cost_each(count, bytes); });
    }
    return figures_;
  }

 private:
  // The median of three times: in a virtual machine the host gives the memory that they take only
  // when it is first touched, 14 us a page or so, whoever does it.
  void set_up() {
    weigh();
    std::vector<double> times;
    for (int round = 0; round < kSetUps; ++round) {
      pairs_.clear();
      const Clock::time_point start = Clock::now();
      for (std::uint32_t i = 0; i < sizes_.back(); ++i) {
        pairs_.push_back(std::make_unique<BenchPair>(card_, kDepth, cq_));
      }
      times.push_back(us_since(start) / sizes_.back());
    }
    figures_.note("setup_us_per_pair", median(times));
    figures_.note("setup_us_per_pair_first", times.front());
  }

  // What a queue pair takes beyond its rings: of those for one work request.
  void weigh() {
    std::vector<std::unique_ptr<BenchPair>> small;
    const std::uint32_t count = sizes_.back() / 10;
    const double before = private_bytes(daemon_);
    for (std::uint32_t i = 0; i < count; ++i) {
      small.push_back(std::make_unique<BenchPair>(card_, 1, cq_));
    }
    figures_.note("bytes_per_qp", (private_bytes(daemon_) - before) / (2.0 * count));
  }

  // Nanoseconds a message, of the first `count` pairs by turns, kWindow under way in all.
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

  // The same with kEach under way in each: whoever has completed all of them posts so many again.
  double cost_each(std::uint32_t count, std::uint32_t bytes) {
    const std::uint32_t messages = messages_ * kMessagesEach;
    std::vector<std::uint32_t> ready(count), under_way(count);  // `ready`: a ring of pairs
    std::iota(ready.begin(), ready.end(), 0U);
    std::uint64_t taken = 0, given = count;
    std::uint32_t posted = 0;
    const Clock::time_point start = Clock::now();
    for (std::uint32_t done = 0; done < messages;) {
      for (int i = 0; i < 2 && posted < messages && taken != given; ++i, ++taken) {
        const std::uint32_t pair = ready[taken % count];
        under_way[pair] = std::min(kEach, messages - posted);
        for (std::uint32_t n = 0; n < under_way[pair]; ++n) {
          pairs_[pair]->post_write(*region_, 0, *region_, kBytesMax, bytes, pair);
        }
        posted += under_way[pair];
      }
      done += reap([&](std::uint64_t pair) {
        if (--under_way[pair] == 0) {
          ready[given++ % count] = static_cast<std::uint32_t>(pair);
        }
      });
    }
    return 1000 * us_since(start) / messages;
  }

  // Completions that were there, kWindow at most; none has an error. `completed` gets their wr_id.
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

  // `cost` of all numbers of pairs by turns.
  template <typename Cost>
  void measure(const std::string& name, const std::string& way, const Cost& cost) {
    std::vector<std::vector<double>> costs(sizes_.size());
    for (int round = -1; round < kRounds; ++round) {
      for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const double ns = cost(sizes_[i]);
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

  static std::vector<std::uint32_t> sizes_to(std::uint32_t pairs) {
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = 10; size <= pairs; size *= 10) {
      sizes.push_back(size);
    }
    return sizes;
  }
  [[nodiscard]] int completions_max() const {
    return static_cast<int>(std::max(2 * kWindow, kEach * sizes_.back()));
  }

  pid_t daemon_;
  std::uint32_t messages_;  // a round
  std::vector<std::uint32_t> sizes_;
  BenchCard card_;
  ibv_cq* cq_ = ibv_create_cq(card_.context(), completions_max(), nullptr, nullptr, 0);
  Pages pages_{2 * kBytesMax};
  RegionHandle region_{card_.register_range(pages_.data(), pages_.length(), false)};
  std::vector<std::unique_ptr<BenchPair>> pairs_;
  Figures figures_;
};

// What two workers do of what one does: one and two by turns.
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
    // Where the build puts it, seen from here.
    const uroce::bench::BenchDaemon daemon(
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../../apps/uroced");
    uroce::bench::ScaleBench bench(daemon.pid(), brief ? 100 : 10'000, brief ? 200 : 30'000);
    figures = bench.run();
  }
  uroce::bench::compare_workers(brief, &figures);
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
