#include "tests/bench/parts/counted_bench.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/check.h"
#include "tests/unit/engine/many_pairs.h"

namespace uroce::bench {
namespace {

constexpr std::uint32_t kCountedLength = 8;
constexpr std::uint32_t kCountedEntries = 256;
constexpr std::uint32_t kCountedSignalEvery = 16;
constexpr Time kCountedTurn = kNanosecondsPerMicrosecond;
// The programs' clock, which the shim would read when the card asks for a post stamp.
const Time* counted_now = nullptr;
Time counted_clock() { return *counted_now; }
// The size of the run that is subtracted: far more than is posted while the queues fill.
constexpr std::uint32_t kFewer = 4'096;
constexpr std::uint32_t kMore = 16'384;

test::PairConfig counted_config() {
  test::PairConfig config;
  config.path_mtu = 4'096;
  for (test::EndpointConfig* end : {&config.a, &config.b}) {
    end->queues.send_entries = kCountedEntries;
    end->queues.cq_entries = 2 * kCountedEntries;
    end->memory_bytes = test::kSmallMemory;
  }
  return config;
}

// The program at one end: posts and polls as datapath_bench's does.
class CountedProgram {
 public:
  CountedProgram(test::QpPair& pair, std::uint32_t messages, std::uint32_t in_flight)
      : pair_(pair),
        left_(messages),
        in_flight_(in_flight),
        signal_every_(std::min(in_flight, kCountedSignalEvery)) {}

  [[nodiscard]] bool done() const { return left_ == 0 && outstanding_ == 0; }

  // Whether it posted anything, so that the doorbell must be rung.
  [[gnu::noinline]] bool post() {
    bool posted = false;
    for (; outstanding_ < in_flight_ && left_ != 0; --left_, ++outstanding_, ++posted_) {
      const std::size_t at = posted_ * kCountedLength % test::kSmallMemory;
      abi::SendWr wr = test::rdma_wr(posted_, abi::WrOpcode::kRdmaWrite, pair_.b, at);
      const bool last = posted_ % signal_every_ == signal_every_ - 1;
      wr.flags = last ? abi::kSignaled : abi::SendFlags{};
      const abi::Sge sge = pair_.a.sge(at, kCountedLength);
      pair_.a.post_send(wr, {&sge, 1});
      posted = true;
    }
    return posted;
  }

  [[gnu::noinline]] void poll() {
    while (const auto cqe = pair_.a.poll_send()) {
      UROCE_CHECK(cqe->status == abi::WcStatus::kSuccess);
      outstanding_ -= signal_every_;
    }
  }

 private:
  test::QpPair& pair_;
  std::uint32_t left_;
  std::uint32_t in_flight_;
  std::uint32_t signal_every_;
  std::uint32_t outstanding_ = 0;
  std::uint64_t posted_ = 0;
};

void write_by_frames(std::uint32_t messages, std::uint32_t in_flight) {
  test::Stations stations(counted_config());
  counted_now = &stations.now;
  stations.pair.a.sends.clock = counted_clock;
  CountedProgram program(stations.pair, messages, in_flight);
  for (; !program.done(); stations.now += kCountedTurn) {
    if (program.post()) {
      stations.a.ring();
    }
    stations.a.worker.poll(stations.now);
    stations.b.worker.poll(stations.now);
    program.poll();
  }
  UROCE_CHECK(stations.pair.a.qp().counters().direct_messages == 0);
}

void write_directly(std::uint32_t messages, std::uint32_t in_flight) {
  test::OneDaemon daemon(true, counted_config());
  counted_now = &daemon.now;
  daemon.pair.a.sends.clock = counted_clock;
  CountedProgram program(daemon.pair, messages, in_flight);
  for (; !program.done(); daemon.now += kCountedTurn) {
    if (program.post()) {
      daemon.station.ring(daemon.a);
    }
    daemon.station.worker.poll(daemon.now);
    program.poll();
  }
  UROCE_CHECK(daemon.port.counters().tx_frames == 0);
}

// One message on each of so many queue pairs.
void write_over_many(std::uint32_t messages, std::uint32_t pairs_count) {
  test::ManyPairs pairs(pairs_count);
  test::OneDaemon& daemon = pairs.daemon;
  counted_now = &daemon.now;
  for (test::Endpoint& sender : pairs.senders) {
    sender.sends.clock = counted_clock;
  }
  for (std::uint32_t posted = 0; posted < messages; daemon.now += kCountedTurn) {
    for (std::uint32_t i = 0; i < pairs_count; ++i) {
      pairs.post_write(i, posted++);
    }
    daemon.station.worker.poll(daemon.now);
    for (test::Endpoint& sender : pairs.senders) {
      const auto cqe = sender.poll_send();
      UROCE_CHECK(cqe && cqe->status == abi::WcStatus::kSuccess);
    }
  }
  UROCE_CHECK(daemon.port.counters().tx_frames == 0);
}

// The instructions of the whole run, from the end of callgrind's output.
std::optional<double> counted(std::string_view way, std::uint32_t messages,
                              std::uint32_t in_flight) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null '" + self +
                              "' --count " + std::string(way) + ' ' + std::to_string(messages) +
                              ' ' + std::to_string(in_flight) + " 2>&1";
  // NOLINTNEXTLINE(cert-env33-c): a benchmark, which runs what its user's PATH has
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) {
    return std::nullopt;
  }
  std::optional<double> count;
  std::array<char, 512> line;
  while (std::fgets(line.data(), static_cast<int>(line.size()), output) != nullptr) {
    const std::string_view text(line.data());
    constexpr std::string_view kCollected = "Collected : ";
    if (const std::size_t at = text.find(kCollected); at != std::string_view::npos) {
      count = std::strtod(line.data() + at + kCollected.size(), nullptr);
    }
  }
  return pclose(output) == 0 ? count : std::nullopt;
}

}  // namespace

bool write_counted(std::string_view way, std::uint32_t messages, std::uint32_t in_flight) {
  // A multiple of the signalling interval, so that all of them complete.
  UROCE_CHECK(in_flight != 0 && in_flight <= kCountedEntries && messages % kCountedEntries == 0);
  if (way == "frames") {
    write_by_frames(messages, in_flight);
  } else if (way == "direct") {
    write_directly(messages, in_flight);
  } else if (way == "spread") {
    write_over_many(messages, in_flight);
  } else {
    return false;
  }
  return true;
}

double instructions_per_write(std::string_view way, std::uint32_t in_flight) {
  const std::optional<double> more = counted(way, kMore, in_flight);
  const std::optional<double> fewer = more ? counted(way, kFewer, in_flight) : std::nullopt;
  return fewer ? (*more - *fewer) / (kMore - kFewer) : 0;
}

}  // namespace uroce::bench
