#include "tests/bench/parts/worker_lanes.h"

#include <algorithm>
#include <barrier>
#include <numeric>
#include <thread>

#include "base/check.h"
#include "base/time/monotonic_clock.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kLaneMtu = 4096;
constexpr std::uint32_t kLaneEntries = 256;
constexpr std::size_t kLaneMemory = 4U << 20U;  // of each end
constexpr std::uint32_t kLaneSignalEvery = 16;
constexpr int kLaneTurnsPerLook = 64;
// Queue pair numbers of lane 0. Those of lane i belong to worker i: modulo the number of workers
// they are i.
constexpr std::uint32_t kQpnOfA = 240, kQpnOfB = 480;

test::PairConfig lane_config(std::uint32_t index, KeyTable& keys_of_a, KeyTable& keys_of_b) {
  test::PairConfig config;
  config.path_mtu = kLaneMtu;
  config.a.qpn = kQpnOfA + index;
  config.b.qpn = kQpnOfB + index;
  config.a.keys = &keys_of_a;
  config.b.keys = &keys_of_b;
  for (test::EndpointConfig* end : {&config.a, &config.b}) {
    end->queues.send_entries = kLaneEntries;
    end->queues.cq_entries = 2 * kLaneEntries;
    end->memory_bytes = kLaneMemory;
  }
  return config;
}

}  // namespace

LaneEnd::LaneEnd(test::Endpoint& end, const Worker::Config& config, const char* address)
    : end_(end), index_(config.index), quiescence_(*config.quiescence), worker_(config) {
  quiescence_.online(index_);
  worker_.set_addresses(0, {parse_ip(address).value()});
  worker_.add_qp(end.qp());
  session_.bells = &bells_;
  session_.slots = {&end.qp()};
  worker_.add_session(session_);
}

LaneEnd::~LaneEnd() {
  worker_.remove_session(session_);
  worker_.remove_qp(end_.qp());
  quiescence_.offline(index_);
}

void LaneEnd::poll() { worker_.poll(monotonic_now()); }

// One worker of each card, and the program that has them write.
struct WorkerLanes::Lane {
  Lane(std::uint32_t index, std::uint32_t workers, Card& card_a, Card& card_b)
      : pair(lane_config(index, card_a.keys, card_b.keys)),
        a(pair.a, config(index, workers, card_a), "10.0.0.1"),
        b(pair.b, config(index, workers, card_b), "10.0.0.2") {
    test::fill_pattern(pair.a.memory, index + 1);
  }

  static Worker::Config config(std::uint32_t index, std::uint32_t workers, Card& card) {
    return {.index = index,
            .workers = workers,
            .ports = {card.port.get()},
            .keys = &card.keys,
            .quiescence = &card.quiescence,
            .paging = &card.paging};
  }

  void post(std::uint32_t length) {
    bool rang = false;
    for (; outstanding < kLaneEntries; ++outstanding) {
      abi::SendWr wr = test::rdma_wr(posted, abi::WrOpcode::kRdmaWrite, pair.b, offset);
      wr.flags = ++posted % kLaneSignalEvery == 0 ? abi::kSignaled : abi::SendFlags{};
      const abi::Sge sge = pair.a.sge(offset, length);
      pair.a.post_send(wr, {&sge, 1});
      offset = offset + 2 * length <= kLaneMemory ? offset + length : 0;
      rang = true;
    }
    if (rang) {
      a.ring();
    }
  }

  std::uint32_t turn() {
    a.poll();
    b.poll();
    std::uint32_t count = 0;
    while (const auto cqe = pair.a.poll_send()) {
      UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
      count += kLaneSignalEvery;
    }
    outstanding -= count;
    return count;
  }

  // Messages per second of the calling thread's time.
  double run(std::uint32_t length, Duration round) {
    offset = 0;
    const Duration start = thread_processor_time();
    Duration end = start;
    std::uint64_t done = 0;
    for (; end - start < round; end = thread_processor_time()) {
      for (int i = 0; i < kLaneTurnsPerLook; ++i) {
        post(length);
        done += turn();
      }
    }
    while (outstanding != 0) {
      turn();
    }
    UROCE_CHECK(
        std::equal(pair.a.memory.begin(), pair.a.memory.begin() + length, pair.b.memory.begin()));
    return static_cast<double>(done) * static_cast<double>(kNanosecondsPerSecond) /
           static_cast<double>(end - start);
  }

  test::QpPair pair;
  LaneEnd a, b;
  std::uint32_t outstanding = 0;
  std::uint64_t posted = 0;
  std::size_t offset = 0;
};

WorkerLanes::WorkerLanes(std::uint32_t workers) : a_(workers), b_(workers) {
  std::tie(a_.port, b_.port) = make_link({.queues = static_cast<std::uint16_t>(workers)});
  std::vector<Worker*> peers_of_a, peers_of_b;
  for (std::uint32_t i = 0; i < workers; ++i) {
    lanes_.push_back(std::make_unique<Lane>(i, workers, a_, b_));
    peers_of_a.push_back(&lanes_[i]->a.worker());
    peers_of_b.push_back(&lanes_[i]->b.worker());
  }
  for (const auto& lane : lanes_) {
    lane->a.worker().set_peers(peers_of_a);
    lane->b.worker().set_peers(peers_of_b);
  }
}

WorkerLanes::~WorkerLanes() = default;

double WorkerLanes::run(std::uint32_t length, Duration round) {
  std::vector<double> rates(lanes_.size());
  std::barrier together(static_cast<std::ptrdiff_t>(lanes_.size()));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    threads.emplace_back([&, i] {
      together.arrive_and_wait();
      rates[i] = lanes_[i]->run(length, round);
    });
  }
  threads.clear();  // joins them
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace uroce::bench
