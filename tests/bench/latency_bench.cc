// The cost of each step of a lone 8-byte WRITE, one after another through a loopback daemon, as its
// program sees them; with a worker that is still polling, and with one that sleeps. And the CPU
// time of an idle daemon.
//
//   build/tests/bench/latency_bench [--json] [--brief]

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "tests/bench/parts/card.h"
#include "tests/bench/parts/figures.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kBytes = 8;
constexpr std::chrono::milliseconds kUntilAsleep{1};  // long after the last message

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  UROCE_CHECK(clock_gettime(clock, &time) == 0);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// Nanoseconds of one message, step by step.
struct Steps {
  std::int64_t post = 0;        // the call
  std::int64_t bell = 0;        // until the worker's turn that serves it begins
  std::int64_t copy = 0;        // until the bytes are seen at the destination
  std::int64_t completion = 0;  // until the completion is polled
};

class LatencyBench {
 public:
  ~LatencyBench() {
    pair_.reset();  // it uses the completion queue
    region_.reset();
    ibv_destroy_cq(ibv_cq_ex_to_cq(cq_));
  }

  void run(const std::string& name, int messages, std::chrono::milliseconds pause,
           Figures* figures) {
    std::vector<Steps> all;
    for (int i = 0; i < messages; ++i) {
      if (pause.count() != 0) {
        std::this_thread::sleep_for(pause);
      }
      all.push_back(write_one());
    }
    note(
        name + "_post_ns", all, [](const Steps& s) { return s.post; }, figures);
    note(
        name + "_bell_ns", all, [](const Steps& s) { return s.bell; }, figures);
    note(
        name + "_copy_ns", all, [](const Steps& s) { return s.copy; }, figures);
    note(
        name + "_completion_ns", all, [](const Steps& s) { return s.completion; }, figures);
    const auto whole = [](const Steps& s) { return s.post + s.bell + s.copy + s.completion; };
    note(name + "_ns", all, whole, figures);
    double sum = 0;
    for (const Steps& steps : all) {
      sum += static_cast<double>(whole(steps));
    }
    figures->note(name + "_mean_ns", sum / messages);
  }

 private:
  static ibv_cq_ex* make_cq(ibv_context* context) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 4;
    wanted.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;  // CLOCK_MONOTONIC, of the turn
    ibv_cq_ex* const cq = ibv_create_cq_ex(context, &wanted);
    UROCE_CHECK(cq != nullptr);
    return cq;
  }

  Steps write_one() {
    auto* const source = reinterpret_cast<std::uint64_t*>(pages_.data());
    *source = ++count_;
    const std::atomic_ref target(*reinterpret_cast<std::uint64_t*>(pages_.data() + kTarget));
    const std::int64_t start = now_ns(CLOCK_MONOTONIC);
    pair_->post_write(*region_, 0, *region_, kTarget, kBytes);
    const std::int64_t posted = now_ns(CLOCK_MONOTONIC);
    while (target.load(std::memory_order_acquire) != count_) {
    }
    const std::int64_t seen = now_ns(CLOCK_MONOTONIC);
    ibv_poll_cq_attr none{};
    while (ibv_start_poll(cq_, &none) == ENOENT) {
    }
    UROCE_CHECK(cq_->status == IBV_WC_SUCCESS);
    const auto turn = static_cast<std::int64_t>(ibv_wc_read_completion_ts(cq_));
    ibv_end_poll(cq_);
    const std::int64_t polled = now_ns(CLOCK_MONOTONIC);
    // The turn may have begun before the call returned.
    const std::int64_t began = std::max(turn, posted);
    return {posted - start, began - posted, seen - began, polled - seen};
  }

  template <typename Part>
  static void note(const std::string& name, std::vector<Steps>& all, Part&& part,
                   Figures* figures) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end(),
                     [&](const Steps& one, const Steps& other) { return part(one) < part(other); });
    figures->note(name, static_cast<double>(part(*middle)));
  }

  static constexpr std::size_t kTarget = 2'048;

  BenchCard card_;
  ibv_cq_ex* cq_ = make_cq(card_.context());
  Pages pages_{4'096};
  RegionHandle region_{card_.register_range(pages_.data(), pages_.length(), false)};
  std::unique_ptr<BenchPair> pair_ =
      std::make_unique<BenchPair>(card_, BenchPair::kDepth, ibv_cq_ex_to_cq(cq_));
  std::uint64_t count_ = 0;
};

// Percent of one processor, while programs have queue pairs and send nothing.
double idle_share(pid_t daemon, std::chrono::milliseconds time) {
  clockid_t clock{};
  UROCE_CHECK(clock_getcpuclockid(daemon, &clock) == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // earlier requests are done
  const std::int64_t start = now_ns(CLOCK_MONOTONIC), ran = now_ns(clock);
  std::this_thread::sleep_for(time);
  return 100.0 * static_cast<double>(now_ns(clock) - ran) /
         static_cast<double>(now_ns(CLOCK_MONOTONIC) - start);
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  using std::chrono::milliseconds;
  using namespace uroce::bench;
  const bool brief = has_flag(argc, argv, "--brief");
  // The path in the build tree, relative to this program.
  const BenchDaemon daemon(std::filesystem::read_symlink("/proc/self/exe").parent_path() /
                           "../../apps/uroced");
  Figures figures;
  {
    LatencyBench bench;
    bench.run("awake", brief ? 200 : 20'000, milliseconds(0), &figures);
    bench.run("asleep", brief ? 20 : 500, kUntilAsleep, &figures);
    figures.note("idle_core_percent", idle_share(daemon.pid(), milliseconds(brief ? 200 : 5'000)));
  }
  figures.print(has_flag(argc, argv, "--json"));
  return 0;
}
