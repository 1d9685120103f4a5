#include "tests/bench/parts/observed_bench.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/time/monotonic_clock.h"
#include "control/metrics/metrics_text.h"
#include "control/reports/latency_report.h"
#include "dataplane/engine/turn/capture.h"
#include "tests/bench/parts/direct_bench.h"
#include "tests/unit/engine/worker_fixture.h"

namespace uroce::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kObservedMemory = 4U << 20U;  // of each side
constexpr std::uint32_t kObservedEntries = 256;
constexpr std::uint32_t kObservedMtu = 4096;
constexpr std::uint32_t kObservedSignalEvery = 16;
constexpr int kObservedTurnsPerLook = 8;
// Rounds are short and alternate, so that disturbances of the machine affect both sides; and memory
// is reallocated several times, since its placement matters more than what is measured.
constexpr std::uint32_t kPlacements = 5;
constexpr std::uint32_t kObservedRounds = 20;  // of each
constexpr Duration kObservedRound = 10 * kNanosecondsPerMillisecond;
constexpr std::uint32_t kScrapes = 21;
constexpr std::size_t kCaptureRing = 8U << 20U;

double observed_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Json counters_json(const RoceCounters& counters) {
  Json json = Json::object();
  for (const RoceCounter& counter : kRoceCounters) {
    json[std::string(counter.name)] = counters.*counter.member;
  }
  return json;
}

// The daemon's work for a scrape: a look at each queue pair, in a turn of its worker, and a page of
// text. Here one thread does both.
void scrape(const std::vector<test::Endpoint*>& ends) {
  Json sessions = Json::array(), devices = Json::array();
  for (test::Endpoint* const end : ends) {
    Json qp = counters_json(end->qp().counters());
    qp["latency"] = control::json_of(control::summarize(end->qp().latencies()));
    sessions.push_back({{"device", "uroce0"}, {"qps", Json::array({std::move(qp)})}});
    Latencies sum;
    sum += end->qp().latencies();
    devices.push_back({{"name", "uroce0"},
                       {"hw_counters", counters_json(end->qp().counters())},
                       {"latency", control::json_of(sum)}});
  }
  const Json report =
      Json::parse(Json{{"sessions", sessions}, {"devices", devices}}.dump(), nullptr, false);
  UROCE_CHECK(!control::metrics_text(report, {}).empty());
}

// The reader of a capture is another process: here it only frees space in the ring.
class Capture {
 public:
  explicit Capture(Worker& worker)
      : worker_(worker),
        lines_((abi::kCaptureRingOffset + kCaptureRing) / sizeof(Line)),
        writer_(std::as_writable_bytes(std::span(lines_)), abi::kCaptureSnapMax) {
    UROCE_CHECK(worker_.set_capture(&writer_));
  }
  ~Capture() {
    worker_.set_capture(nullptr);
    UROCE_CHECK(control().missed == 0 && control().head != 0);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void make_room() { control().tail = control().head.load(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  abi::CaptureControl& control() { return *reinterpret_cast<abi::CaptureControl*>(lines_.data()); }

  Worker& worker_;
  std::vector<Line> lines_;
  CaptureWriter writer_;
};

enum class Watch : std::uint8_t { kNothing, kObserved, kCaptured };

test::PairConfig observed_config(bool measures) {
  test::PairConfig config;
  config.path_mtu = kObservedMtu;
  for (test::EndpointConfig* end : {&config.a, &config.b}) {
    end->queues.send_entries = kObservedEntries;
    end->queues.cq_entries = 2 * kObservedEntries;
    end->memory_bytes = kObservedMemory;
    end->measures_latency = measures;
  }
  return config;
}

// Two workers on one thread, polled in turn, and their observers.
class Traffic {
 public:
  explicit Traffic(Watch watch) : stations_(observed_config(watch == Watch::kObserved)) {
    stations_.pair.a.sends.clock = monotonic_now;
    if (watch == Watch::kCaptured) {
      captures_[0].emplace(stations_.a.worker);
      captures_[1].emplace(stations_.b.worker);
    }
  }

  // RC WRITEs of so many bytes. Returns messages per second of the thread's time.
  double run(std::uint32_t length, Duration round) {
    const double start = observed_seconds(CLOCK_THREAD_CPUTIME_ID);
    double took = 0;
    std::uint64_t done = 0;
    for (; took < static_cast<double>(round) * 1e-9;
         took = observed_seconds(CLOCK_THREAD_CPUTIME_ID) - start) {
      for (int i = 0; i < kObservedTurnsPerLook; ++i) {
        post(length);
        done += turn();
      }
    }
    while (outstanding_ != 0) {
      turn();
    }
    return static_cast<double>(done) / took;
  }

  // The thread's time for a scrape, in seconds.
  double scrape_seconds() {
    const double start = observed_seconds(CLOCK_THREAD_CPUTIME_ID);
    scrape({&stations_.pair.a, &stations_.pair.b});
    return observed_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
  }

 private:
  void post(std::uint32_t length) {
    for (; outstanding_ < kObservedEntries; ++outstanding_) {
      const std::uint64_t id = posted_++;
      offset_ = offset_ + 2 * length <= kObservedMemory ? offset_ + length : 0;
      abi::SendWr wr = test::rdma_wr(id, abi::WrOpcode::kRdmaWrite, stations_.pair.b, offset_);
      wr.flags =
          id % kObservedSignalEvery == kObservedSignalEvery - 1 ? abi::kSignaled : abi::SendFlags{};
      const abi::Sge sge = stations_.pair.a.sge(offset_, length);
      stations_.pair.a.post_send(wr, {&sge, 1});
    }
    stations_.a.ring();
  }

  std::uint32_t turn() {
    for (test::Station* const station : {&stations_.a, &stations_.b}) {
      station->worker.poll(monotonic_now());
    }
    for (std::optional<Capture>& capture : captures_) {
      if (capture) {
        capture->make_room();
      }
    }
    std::uint32_t done = 0;
    while (const auto cqe = stations_.pair.a.poll_send()) {
      UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
      done += kObservedSignalEvery;
    }
    outstanding_ -= done;
    return done;
  }

  test::Stations stations_;
  std::array<std::optional<Capture>, 2> captures_;
  std::uint32_t outstanding_ = 0;
  std::uint64_t posted_ = 0;
  std::size_t offset_ = 0;
};

double middle_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The remaining part of the rate. make(whether it is observed): one side.
template <typename Make>
double part_of_plain(std::uint32_t length, bool brief, Make&& make) {
  std::vector<double> parts;
  for (std::uint32_t placement = 0; placement < (brief ? 1 : kPlacements); ++placement) {
    const auto first = make(placement % 2 != 0);
    const auto second = make(placement % 2 == 0);
    auto& plain = placement % 2 == 0 ? *first : *second;
    auto& watched = placement % 2 == 0 ? *second : *first;
    plain.run(length, kObservedRound);
    watched.run(length, kObservedRound);
    for (std::uint32_t round = 0; round < (brief ? 1 : kObservedRounds); ++round) {
      const double rate = plain.run(length, kObservedRound);
      parts.push_back(watched.run(length, kObservedRound) / rate);
    }
  }
  return middle_of(parts);
}

// The part of a second that a scrape takes; there is one per second.
double part_of_scrapes() {
  Traffic traffic(Watch::kObserved);
  traffic.run(8, kObservedRound);
  std::vector<double> took;
  for (std::uint32_t i = 0; i < kScrapes; ++i) {
    took.push_back(traffic.scrape_seconds());
  }
  return middle_of(took);
}

}  // namespace

ObservedFigures measure_observed(bool brief) {
  constexpr std::uint32_t kSmallBytes = 8, kLargeBytes = 64 * 1024;
  const auto frames = [](Watch watch) {
    return
        [=](bool watched) { return std::make_unique<Traffic>(watched ? watch : Watch::kNothing); };
  };
  const auto direct = [](bool watched) {
    return std::make_unique<DirectBench>(kObservedMemory, kObservedEntries, watched);
  };
  const double left = 1 - part_of_scrapes();
  return {.write_8b = left * part_of_plain(kSmallBytes, brief, frames(Watch::kObserved)),
          .write_64k = left * part_of_plain(kLargeBytes, brief, frames(Watch::kObserved)),
          .direct_8b = left * part_of_plain(kSmallBytes, brief, direct),
          .captured_8b = part_of_plain(kSmallBytes, brief, frames(Watch::kCaptured)),
          .captured_64k = part_of_plain(kLargeBytes, brief, frames(Watch::kCaptured))};
}

}  // namespace uroce::bench
