#include "tests/bench/parts/direct_bench.h"

#include <libdeflate.h>

#include <cstring>
#include <ctime>

#include "base/check.h"
#include "tests/bench/parts/working_set.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kDirectMtu = 4096;
constexpr std::uint32_t kDirectSignalEvery = 16;
constexpr int kDirectTurnsPerLook = 64;
constexpr double kPiece = 4096;

Time direct_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<Time>(time.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(time.tv_nsec);
}

// Calls step() repeatedly for about `round` of the thread's CPU time, reading the clock only every
// few steps. Returns the nanoseconds it took.
template <typename Step>
double spend(Duration round, Step&& step) {
  const Time start = direct_clock(CLOCK_THREAD_CPUTIME_ID);
  Time end = start;
  for (; end - start < round; end = direct_clock(CLOCK_THREAD_CPUTIME_ID)) {
    for (int i = 0; i < kDirectTurnsPerLook; ++i) {
      step();
    }
  }
  return static_cast<double>(end - start);
}

Time direct_now() { return direct_clock(CLOCK_MONOTONIC); }

test::PairConfig one_daemon_config(std::size_t memory_bytes, std::uint32_t entries, bool measures) {
  test::PairConfig config;
  config.path_mtu = kDirectMtu;
  for (test::EndpointConfig* end : {&config.a, &config.b}) {
    end->queues.send_entries = entries;
    end->queues.cq_entries = 2 * entries;
    end->memory_bytes = memory_bytes;
    end->measures_latency = measures;
  }
  return config;
}

}  // namespace

DirectBench::DirectBench(std::size_t memory_bytes, std::uint32_t entries, bool measures)
    : entries_(entries),
      daemon_(true, one_daemon_config(memory_bytes, entries, measures), nullptr, direct_now) {
  test::fill_pattern(daemon_.pair.a.memory, 1);
  daemon_.pair.a.sends.clock = direct_now;
}

double DirectBench::run(std::uint32_t length, Duration round) {
  start();
  std::uint64_t done = 0;
  const double took = spend(round, [&] {
    post(length);
    daemon_.station.worker.poll(direct_clock(CLOCK_MONOTONIC));
    done += reap();
  });
  while (outstanding_ != 0) {
    daemon_.station.worker.poll(direct_clock(CLOCK_MONOTONIC));
    reap();
  }
  UROCE_CHECK(std::equal(daemon_.pair.a.memory.begin(), daemon_.pair.a.memory.begin() + length,
                         daemon_.pair.b.memory.begin()));
  UROCE_CHECK(daemon_.port.counters().tx_frames == 0);
  return static_cast<double>(done) / took * static_cast<double>(kNanosecondsPerSecond);
}

void DirectBench::start() {
  offset_ = 0;
  prefault(daemon_.pair.a.memory);
  prefault(daemon_.pair.b.memory);
}

void DirectBench::post(std::uint32_t length) {
  bool rang = false;
  while (outstanding_ < entries_) {
    const std::uint64_t id = posted_++;
    const std::size_t at = next(length);
    abi::SendWr wr = test::rdma_wr(id, abi::WrOpcode::kRdmaWrite, daemon_.pair.b, at);
    wr.flags =
        id % kDirectSignalEvery == kDirectSignalEvery - 1 ? abi::kSignaled : abi::SendFlags{};
    const abi::Sge sge = daemon_.pair.a.sge(at, length);
    daemon_.pair.a.post_send(wr, {&sge, 1});
    ++outstanding_;
    rang = true;
  }
  if (rang) {
    daemon_.station.ring(daemon_.a);
  }
}

std::uint32_t DirectBench::reap() {
  std::uint32_t count = 0;
  while (const auto cqe = daemon_.pair.a.poll_send()) {
    UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
    count += kDirectSignalEvery;
  }
  outstanding_ -= count;
  return count;
}

std::size_t DirectBench::next(std::uint32_t length) {
  const std::size_t at = offset_;
  offset_ = offset_ + 2 * length <= daemon_.pair.a.memory.size() ? offset_ + length : 0;
  return at;
}

double DirectBench::copy_ns_per_4k(std::uint32_t length, Duration round) {
  start();
  std::uint64_t copies = 0;
  const double took = spend(round, [&] {
    const std::size_t at = next(length);
    std::memcpy(daemon_.pair.b.memory.data() + at, daemon_.pair.a.memory.data() + at, length);
    ++copies;
  });
  return took / (static_cast<double>(copies) * length / kPiece);
}

double DirectBench::libdeflate_ns_per_4k(Duration round) {
  constexpr auto kBytes = static_cast<std::uint32_t>(kPiece);
  start();
  std::uint64_t sums = 0;
  volatile std::uint32_t sum = 0;
  const double took = spend(round, [&] {
    sum = libdeflate_crc32(sum, daemon_.pair.a.memory.data() + next(kBytes), kBytes);
    ++sums;
  });
  return took / static_cast<double>(sums);
}

}  // namespace uroce::bench
