// How near the datapath comes to the bound of copying and checksumming on one core: two workers,
// polled in turn by one thread, over two ports joined in memory. Everything is as in the daemon:
// the program's rings and doorbells, parsing, steering, queue pairs, completions. Also the cost
// without frames, within one worker, against plain copies.
//
//   build/tests/bench/datapath_bench [--json] [--brief]
//   build/tests/bench/datapath_bench --count frames|direct MESSAGES IN_FLIGHT
//
//   build/tests/bench/datapath_bench --profile frames|direct
//
// The second form only does so many WRITEs of 8 bytes, for callgrind (instructions.py); the third
// only WRITEs of 64 KiB for a second, for perf, and prints their cost per 4 KiB.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "dataplane/engine/worker.h"
#include "dataplane/port/link_port.h"
#include "tests/bench/parts/bound.h"
#include "tests/bench/parts/counted_bench.h"
#include "tests/bench/parts/direct_bench.h"
#include "tests/bench/parts/figures.h"
#include "tests/bench/parts/observed_bench.h"
#include "tests/bench/parts/working_set.h"
#include "tests/unit/qp/qp_pair.h"

namespace uroce::bench {
namespace {

using test::Endpoint;

constexpr std::size_t kMemoryBytes = 16U << 20U;  // of each side: streams, as applications do
constexpr std::uint32_t kSendEntries = 256;
constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMtuOfEthernet = 1024;  // the largest path MTU that fits its frames
constexpr std::uint32_t kRounds = 9;
constexpr Duration kRound = 100 * kNanosecondsPerMillisecond;
constexpr std::uint32_t kFramesInFlight = 32;
constexpr std::uint32_t kSignalEvery = 16;
constexpr int kTurnsPerLook = 64;  // turns of each worker between two readings of the clock

Time read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<Time>(time.tv_sec) * kNanosecondsPerSecond + static_cast<Time>(time.tv_nsec);
}

// The thread's own CPU time, as for the bound, so that other processes on the machine don't count.
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
    return {.ports = {&port}, .keys = &end.keys(), .quiescence = &quiescence_, .paging = &paging_};
  }

  Endpoint& end_;
  Quiescence quiescence_;
  PagingQueues paging_{1, {}};
  Worker worker_;
  abi::Doorbells bells_{};
  SessionDoorbells session_;
};

struct Bench {
  Bench(std::uint32_t mtu, bool slow_way)
      : pair(pair_config(mtu, slow_way)),
        ports(make_link({})),
        a(pair.a, *ports.first, "10.0.0.1"),
        b(pair.b, *ports.second, "10.0.0.2") {
    test::fill_pattern(pair.a.memory, 1);
  }

  // WRITEs of `length` bytes, as many as fit into a round. Returns messages per second.
  double run(std::uint32_t length) {
    offset = 0;
    prefault(pair.a.memory);
    prefault(pair.b.memory);
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

// The same memory as mapped, and by /proc/PID/mem: the remaining part of the rate.
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

// The bound, with as much memory as the datapath uses.
class BoundBench {
 public:
  BoundBench() {
    for (std::size_t i = 0; i < kFramesInFlight; ++i) {
      starts_.push_back(frames_.data() + i * kBoundFrameBytes);
    }
  }
  Bound run() {
    prefault(source_);
    prefault(destination_);
    prefault(frames_);
    return measure_bound({source_, destination_, starts_}, 1);
  }

 private:
  std::vector<std::byte> source_{kMemoryBytes, std::byte{1}};
  std::vector<std::byte> destination_{kMemoryBytes, std::byte{2}};
  std::vector<std::byte> frames_{kFramesInFlight * kBoundFrameBytes, std::byte{3}};
  std::vector<std::byte*> starts_;
};

// Instructions of an 8-byte WRITE from post to completion, of programs and workers at both ends;
// alone: with nothing else outstanding, empty turns included; spread: each the only one of its
// queue pair, over as many. 0: valgrind isn't installed.
struct Instructions {
  double frames = instructions_per_write("frames", kSendEntries);
  double direct = instructions_per_write("direct", kSendEntries);
  double frames_alone = instructions_per_write("frames", 1);
  double direct_alone = instructions_per_write("direct", 1);
  double direct_spread = instructions_per_write("spread", kSendEntries);
};

void print_instructions(const Instructions& count) {
  std::printf(
      "\"write_8b_instructions\": %.0f, \"direct_8b_instructions\": %.0f, "
      "\"write_8b_alone_instructions\": %.0f, \"direct_8b_alone_instructions\": %.0f, "
      "\"direct_8b_spread_instructions\": %.0f}\n",
      count.frames, count.direct, count.frames_alone, count.direct_alone, count.direct_spread);
}

constexpr std::uint32_t kLarge = 64 * 1024;

// Nanoseconds per 4 KiB, at so many messages of 64 KiB per second.
double ns_of_piece(double rate) { return 1e9 / (rate * kLarge / kBoundPayload); }

// For profiling where large messages spend their time. False if there is no such way.
bool profile(std::string_view way) {
  std::vector<double> pieces;
  if (way == "frames") {
    Bench bench(kMtu, false);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      pieces.push_back(ns_of_piece(bench.run(kLarge)));
    }
  } else if (way == "direct") {
    DirectBench bench(kMemoryBytes, kSendEntries);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      pieces.push_back(ns_of_piece(bench.run(kLarge, kRound)));
    }
  } else {
    return false;
  }
  std::printf("%.1f ns per 4 KiB\n", median(pieces));
  return true;
}

int run(bool json, bool brief) {
  const std::uint32_t rounds = brief ? 1 : kRounds;
  constexpr std::uint32_t kSmall = 8;
  Bench bench(kMtu, false);
  SlowWay slow(kMtu), slow_1k(kMtuOfEthernet);
  BoundBench bound;
  DirectBench direct(kMemoryBytes, kSendEntries);
  std::vector<double> tx, rx, ratio, large, small, copy, direct_large, of_copy, direct_small,
      small_ratio, sum;
  // The bound and the datapath alternate, so that disturbances of the machine affect both.
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const Bound of_round = bound.run();
    const double ns_per_4k = ns_of_piece(bench.run(kLarge));
    tx.push_back(of_round.tx_ns_per_4k);
    rx.push_back(of_round.rx_ns_per_4k);
    large.push_back(ns_per_4k);
    ratio.push_back((of_round.tx_ns_per_4k + of_round.rx_ns_per_4k) / ns_per_4k);
    copy.push_back(direct.copy_ns_per_4k(kLarge, kRound));
    direct_large.push_back(ns_of_piece(direct.run(kLarge, kRound)));
    of_copy.push_back(copy.back() / direct_large.back());
    small.push_back(bench.run(kSmall));
    direct_small.push_back(direct.run(kSmall, kRound));
    small_ratio.push_back(direct_small.back() / small.back());
    sum.push_back(direct.libdeflate_ns_per_4k(kRound / 4));
    slow.run(kLarge);
    slow_1k.run(kLarge);
  }
  UROCE_CHECK(std::equal(bench.pair.a.memory.begin(), bench.pair.a.memory.begin() + kLarge,
                         bench.pair.b.memory.begin()));
  const ObservedFigures watched = measure_observed(brief);
  const double observed = std::min({watched.write_8b, watched.write_64k, watched.direct_8b});
  if (json) {
    std::printf(
        "{\"observed_of_plain\": %.3f, \"observed_of_plain_8b\": %.3f, "
        "\"observed_of_plain_64k\": %.3f, \"observed_of_plain_direct_8b\": %.3f, "
        "\"captured_of_plain_8b\": %.3f, \"captured_of_plain\": %.3f,\n",
        observed, watched.write_8b, watched.write_64k, watched.direct_8b, watched.captured_8b,
        watched.captured_64k);
    std::printf(
        "\"bound_tx_ns_per_4k\": %.1f, \"bound_rx_ns_per_4k\": %.1f, "
        "\"write_64k_of_bound\": %.3f, \"write_8b_per_second\": %.0f, "
        "\"slow_way_of_direct\": %.3f, \"slow_way_of_direct_mtu_1k\": %.3f, "
        "\"memcpy_ns_per_4k\": %.1f, \"libdeflate_ns_per_4k\": %.1f, "
        "\"direct_64k_of_memcpy\": %.3f, \"direct_8b_per_second\": %.0f, "
        "\"direct_8b_of_write_8b\": %.3f, ",
        median(tx), median(rx), median(ratio), median(small), slow.of_direct(), slow_1k.of_direct(),
        median(copy), median(sum), median(of_copy), median(direct_small), median(small_ratio));
    print_instructions(Instructions());
    return 0;
  }
  std::printf("Medians of %u rounds, in processor time of one thread\n", rounds);
  std::printf("bound, sending (fused copy and ICRC)    %8.1f ns per 4 KiB\n", median(tx));
  std::printf("bound, receiving (ICRC, then copy)      %8.1f ns per 4 KiB\n", median(rx));
  std::printf("RC WRITE 64 KiB, MTU 4096, both sides   %8.1f ns per 4 KiB (%.1f Gb/s)\n",
              median(large), kBoundPayload * 8 / median(large));
  std::printf("  of the bound                          %8.3f (target 0.5)\n", median(ratio));
  std::printf("RC WRITE 8 B                            %8.2f million a second (target 2)\n",
              median(small) * 1e-6);
  std::printf("RC WRITE 64 KiB through /proc/PID/mem   %8.3f of direct; MTU 1024: %.3f\n",
              slow.of_direct(), slow_1k.of_direct());
  std::printf("memcpy of 64 KiB, the same working set  %8.1f ns per 4 KiB\n", median(copy));
  std::printf("libdeflate's CRC-32 of it               %8.1f ns per 4 KiB\n", median(sum));
  std::printf("RC WRITE 64 KiB without frames          %8.1f ns per 4 KiB\n", median(direct_large));
  std::printf("  of memcpy                             %8.3f (target 0.8)\n", median(of_copy));
  std::printf("RC WRITE 8 B without frames             %8.2f million a second\n",
              median(direct_small) * 1e-6);
  std::printf("  of the same as frames                 %8.3f (target 2)\n", median(small_ratio));
  std::printf(
      "with histograms and scrapes             %8.3f of the rate without (target 0.98): "
      "8 B %.3f, 64 KiB %.3f, 8 B without frames %.3f\n",
      observed, watched.write_8b, watched.write_64k, watched.direct_8b);
  std::printf("with a capture of whole frames          %8.3f of the rate without, 8 B: %.3f\n",
              watched.captured_64k, watched.captured_8b);
  return 0;
}

}  // namespace
}  // namespace uroce::bench

int main(int argc, char** argv) {
  constexpr int kCountArguments = 5;
  if (argc == kCountArguments && std::strcmp(argv[1], "--count") == 0) {
    const auto number = [&](int index) {
      return static_cast<std::uint32_t>(std::strtoul(argv[index], nullptr, 10));
    };
    return uroce::bench::write_counted(argv[2], number(3), number(4)) ? 0 : 2;
  }
  constexpr int kProfileArguments = 3;
  if (argc == kProfileArguments && std::strcmp(argv[1], "--profile") == 0) {
    return uroce::bench::profile(argv[2]) ? 0 : 2;
  }
  using uroce::bench::has_flag;
  const bool json = has_flag(argc, argv, "--json");
  const bool brief = has_flag(argc, argv, "--brief");
  if (argc != 1 + (json ? 1 : 0) + (brief ? 1 : 0)) {
    std::fprintf(stderr,
                 "usage: datapath_bench [--json] [--brief]\n"
                 "       datapath_bench --count frames|direct MESSAGES IN_FLIGHT\n"
                 "       datapath_bench --profile frames|direct\n");
    return 2;
  }
  return uroce::bench::run(json, brief);
}
