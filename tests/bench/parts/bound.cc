// Measures the bound: copying and checksumming without any protocol around them.

#include "tests/bench/parts/bound.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/check.h"
#include "dataplane/wire/crc/crc32.h"
#include "dataplane/wire/icrc.h"

namespace uroce::bench {
namespace {

// The thread's own CPU time, so that other processes on the machine don't count.
struct Clock {
  static std::chrono::nanoseconds now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

// A cursor that walks over a buffer payload by payload, starting over at the end.
class Walk {
 public:
  explicit Walk(std::size_t size) : size_(size) {}
  std::size_t next() {
    const std::size_t at = at_;
    at_ += kBoundPayload;
    if (at_ + kBoundPayload > size_) {
      at_ = 0;
    }
    return at;
  }

 private:
  std::size_t size_;
  std::size_t at_ = 0;
};

void send(const BoundBuffers& buffers, Walk& walk) {
  for (std::byte* frame : buffers.frames) {
    std::byte* payload = frame + kBoundHeaderRoom;
    const std::uint32_t state = crc32_copy(kIcrcStart, payload, buffers.source.data() + walk.next(),
                                           kBoundPayload, kBoundPayload);
    std::memcpy(payload + kBoundPayload, &state, sizeof(state));
  }
}

// Returns the number of frames with a correct ICRC, which must be all.
std::size_t receive(const BoundBuffers& buffers, Walk& walk) {
  std::size_t right = 0;
  for (const std::byte* frame : buffers.frames) {
    const std::byte* payload = frame + kBoundHeaderRoom;
    std::uint32_t stored = 0;
    std::memcpy(&stored, payload + kBoundPayload, sizeof(stored));
    if (crc32_update(kIcrcStart, payload, kBoundPayload) == stored) {
      std::memcpy(buffers.destination.data() + walk.next(), payload, kBoundPayload);
      ++right;
    }
  }
  return right;
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

Bound measure_bound(const BoundBuffers& buffers, std::uint32_t rounds) {
  UROCE_CHECK(rounds >= 1 && !buffers.frames.empty());
  UROCE_CHECK(buffers.source.size() >= kBoundPayload &&
              buffers.destination.size() >= kBoundPayload);
  constexpr std::chrono::milliseconds kRound{10};
  Walk source(buffers.source.size());
  Walk destination(buffers.destination.size());
  std::vector<double> tx;
  std::vector<double> rx;
  for (std::uint32_t round = 0; round <= rounds; ++round) {
    std::chrono::nanoseconds sending{0};
    std::chrono::nanoseconds receiving{0};
    double packets = 0;
    while (sending + receiving < kRound) {
      const auto start = Clock::now();
      send(buffers, source);
      const auto sent = Clock::now();
      UROCE_CHECK(receive(buffers, destination) == buffers.frames.size());
      receiving += Clock::now() - sent;
      sending += sent - start;
      packets += static_cast<double>(buffers.frames.size());
    }
    if (round > 0) {
      tx.push_back(static_cast<double>(sending.count()) / packets);
      rx.push_back(static_cast<double>(receiving.count()) / packets);
    }
  }
  return {.tx_ns_per_4k = median(tx), .rx_ns_per_4k = median(rx)};
}

}  // namespace uroce::bench
