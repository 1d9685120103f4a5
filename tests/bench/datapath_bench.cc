// How near the datapath comes to the bound of copying and checksumming, on one core: two workers,
// polled by turns on one thread, over two ports joined in memory. Everything is as in the daemon:
// the program's rings and doorbells, parsing, steering, queue pairs, completions.
//
//   build/tests/bench/datapath_bench [--json]

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "tests/bench/bound.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::bench {
namespace {

using test::Endpoint;

constexpr std::size_t kMemoryBytes = 16U << 20U;  // of each side: streams, as applications do
constexpr std::uint32_t kSendEntries = 256;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMtuOfEthernet = 1024;  // what fits its frames
constexpr std::uint32_t kRounds = 9;
constexpr Duration kRound = 100 * kNanosecondsPerMillisecond;
constexpr std::uint32_t kFramesInFlight = 32;
constexpr std::uint32_t kSignalEvery = 16;
constexpr int kTurnsPerLook = 64;  // turns of each worker between two looks at the clock

Time read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<Time>(time.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(time.tv_nsec);
}

// What is measured is the thread's own time on the processor, as the bound's is, so that whoever
// else runs on the machine doesn't count.
Time spent() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

test::PairConfig pair_config(std::uint32_t mtu, bool slow_way) {
  test::PairConfig config;
  config.path_mtu = mtu;
  for (test::EndpointConfig* end : {&config.a, &config.b}) {
    end->queues.send_entries = kSendEntries;
    end->queues.cq_entries = 2 * kSendEntries;
    end->memory_bytes = kMemoryBytes;
    end->slow_way = slow_way;
  }
  return config;
}

// One side: the worker and the program behind it.
class Node {
 public:
  Node(Endpoint& end, Port& port, const char* address) : end_(end), worker_(config(end, port)) {
    quiescence_.online(0);
    worker_.set_addresses(0, {parse_ip(address).value()});
    worker_.add_qp(end.qp());
    session_.bells = &bells_;
    session_.slots = {&end.qp()};
    worker_.add_session(session_);
  }
  ~Node() {
    worker_.remove_session(session_);
    worker_.remove_qp(end_.qp());
  }

  void poll() { worker_.poll(read_clock(CLOCK_MONOTONIC)); }
  void ring() { abi::ring(bells_, 0); }

 private:
  Worker::Config config(Endpoint& end, Port& port) {
    return {.ports = {&port}, .keys = &end.keys(), .quiescence = &quiescence_};
  }

  Endpoint& end_;
  Quiescence quiescence_;
  Worker worker_;
  abi::Doorbells bells_{};
  SessionBells session_;
};

struct Bench {
  Bench(std::uint32_t mtu, bool slow_way)
      : pair(pair_config(mtu, slow_way)),
        ports(make_link({})),
        a(pair.a, *ports.first, "10.0.0.1"),
        b(pair.b, *ports.second, "10.0.0.2") {
    test::fill_pattern(pair.a.memory, 1);
  }

  // WRITEs of `length` bytes, as many as fit in a round: messages a second.
  double run(std::uint32_t length) {
    offset = 0;
    const Time start = spent();
    Time end = start;
    std::uint64_t done = 0;
    for (; end - start < kRound; end = spent()) {
      for (int i = 0; i < kTurnsPerLook; ++i) {
        post(length);
        a.poll();
        b.poll();
        done += reap();
      }
    }
    const double seconds = static_cast<double>(end - start) * 1e-9;
    const double rate = static_cast<double>(done) / seconds;
    while (outstanding != 0) {
      a.poll();
      b.poll();
      reap();
    }
    return rate;
  }

  void post(std::uint32_t length) {
    bool rang = false;
    while (outstanding < kSendEntries) {
      const std::uint64_t id = posted++;
      const std::size_t at = offset;
      offset = offset + 2 * length <= kMemoryBytes ? offset + length : 0;
      abi::SendWr wr = test::rdma_wr(id, abi::WrOpcode::kRdmaWrite, pair.b, at);
      wr.flags = id % kSignalEvery == kSignalEvery - 1 ? abi::kSignaled : abi::SendFlags{};
      const abi::Sge sge = pair.a.sge(at, length);
      pair.a.post_send(wr, {&sge, 1});
      ++outstanding;
      rang = true;
    }
    if (rang) {
      a.ring();
    }
  }

  std::uint32_t reap() {
    std::uint32_t count = 0;
    while (const auto cqe = pair.a.poll_send()) {
      UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
      count += kSignalEvery;
    }
    outstanding -= count;
    return count;
  }

  test::QpPair pair;
  std::pair<std::unique_ptr<Port>, std::unique_ptr<Port>> ports;
  Node a;
  Node b;
  std::uint32_t outstanding = 0;
  std::uint64_t posted = 0;
  std::size_t offset = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The same memory as mapped, and as /proc/PID/mem: what is left of the rate.
class SlowWay {
 public:
  explicit SlowWay(std::uint32_t mtu) : direct_(mtu, false), slow_(mtu, true) {}
  void run(std::uint32_t length) {
    const double direct = direct_.run(length);
    of_direct_.push_back(slow_.run(length) / direct);
    UROCE_CHECK(std::equal(slow_.pair.a.memory.begin(), slow_.pair.a.memory.begin() + length,
                           slow_.pair.b.memory.begin()));
  }
  [[nodiscard]] double of_direct() const { return median(of_direct_); }

 private:
  Bench direct_, slow_;
  std::vector<double> of_direct_;
};

// The bound, with as much memory as the datapath has.
class BoundBench {
 public:
  BoundBench() {
    for (std::size_t i = 0; i < kFramesInFlight; ++i) {
      starts_.push_back(frames_.data() + i * kBoundFrameBytes);
    }
  }
  Bound run() { return measure_bound({source_, destination_, starts_}, 1); }

 private:
  std::vector<std::byte> source_{kMemoryBytes, std::byte{1}};
  std::vector<std::byte> destination_{kMemoryBytes, std::byte{2}};
  std::vector<std::byte> frames_{kFramesInFlight * kBoundFrameBytes, std::byte{3}};
  std::vector<std::byte*> starts_;
};

int run(bool json) {
  constexpr std::uint32_t kLarge = 64 * 1024;
  constexpr std::uint32_t kSmall = 8;
  Bench bench(kMtu, false);
  SlowWay slow(kMtu), slow_1k(kMtuOfEthernet);
  BoundBench bound;
  std::vector<double> tx, rx, ratio, large, small;
  // The bound and the datapath by turns, so that what disturbs the machine disturbs both.
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const Bound of_round = bound.run();
    const double ns_per_4k = 1e9 / (bench.run(kLarge) * kLarge / kBoundPayload);
    tx.push_back(of_round.tx_ns_per_4k);
    rx.push_back(of_round.rx_ns_per_4k);
    large.push_back(ns_per_4k);
    ratio.push_back((of_round.tx_ns_per_4k + of_round.rx_ns_per_4k) / ns_per_4k);
    small.push_back(bench.run(kSmall));
    slow.run(kLarge);
    slow_1k.run(kLarge);
  }
  UROCE_CHECK(std::equal(bench.pair.a.memory.begin(), bench.pair.a.memory.begin() + kLarge,
                         bench.pair.b.memory.begin()));
  if (json) {
    std::printf(
        "{\"bound_tx_ns_per_4k\": %.1f, \"bound_rx_ns_per_4k\": %.1f, "
        "\"write_64k_of_bound\": %.3f, \"write_8b_per_second\": %.0f, "
        "\"slow_way_of_direct\": %.3f, \"slow_way_of_direct_mtu_1k\": %.3f}\n",
        median(tx), median(rx), median(ratio), median(small), slow.of_direct(),
        slow_1k.of_direct());
    return 0;
  }
  std::printf("Medians of %u rounds, in processor time of one thread\n", kRounds);
  std::printf("bound, sending (fused copy and ICRC)    %8.1f ns per 4 KiB\n", median(tx));
  std::printf("bound, receiving (ICRC, then copy)      %8.1f ns per 4 KiB\n", median(rx));
  std::printf("RC WRITE 64 KiB, MTU 4096, both sides   %8.1f ns per 4 KiB (%.1f Gb/s)\n",
              median(large), kBoundPayload * 8 / median(large));
  std::printf("  of the bound                          %8.3f (target 0.5)\n", median(ratio));
  std::printf("RC WRITE 8 B                            %8.2f million a second (target 2)\n",
              median(small) * 1e-6);
  std::printf("RC WRITE 64 KiB through /proc/PID/mem   %8.3f of direct; MTU 1024: %.3f\n",
              slow.of_direct(), slow_1k.of_direct());
  return 0;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 2 || (argc == 2 && !json)) {
    std::fprintf(stderr, "usage: datapath_bench [--json]\n");
    return 2;
  }
  return uroce::bench::run(json);
}
