// Occupies a worker with one program. busy PAIRS: that many queue pairs that always have
// something to send. punch MIBYTES: writes to a file whose pages are all punched out, again and
// again.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/parts/card.h"
#include "tests/hostile/attack.h"

namespace uroce::hostile {
namespace {

constexpr std::uint32_t kBusyBytes = 256U << 10U;
constexpr std::uint32_t kOutstanding = 2;
constexpr std::uint64_t kMebibyte = 1U << 20U;
constexpr std::uint32_t kPunchedBytes = 64U << 10U;
constexpr std::uint64_t kWrittenTo = 4 * kMebibyte;
constexpr std::uint64_t kPopulateStep = 64 * kMebibyte;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE

struct Punched {
  explicit Punched(std::uint64_t bytes)
      : length(bytes), file(::memfd_create("punched", MFD_CLOEXEC)) {
    if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(length)) != 0) {
      give_up("no file to punch");
    }
    memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) {
      give_up("the file can't be mapped");
    }
  }
  void fill() const {
    for (std::uint64_t at = 0; at < length; at += kPopulateStep) {
      ::madvise(static_cast<std::byte*>(memory) + at, kPopulateStep, kPopulateWrite);
    }
  }
  void punch() const {
    ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(length));
  }

  std::uint64_t length;
  UniqueFd file;
  void* memory;
};

}  // namespace

int attack_with_queue_pairs(Arguments arguments) {
  bench::BenchCard card;
  const bench::Pages pages(2 * kBusyBytes);
  const auto region = card.register_range(pages.data(), pages.length(), false);
  std::vector<std::unique_ptr<bench::BenchPair>> pairs;
  for (std::uint64_t i = 0; i < number(arguments, 0, 400); ++i) {
    pairs.push_back(std::make_unique<bench::BenchPair>(card));
  }
  say_attacking();
  for (;;) {
    for (const auto& pair : pairs) {
      while (pair->outstanding() < kOutstanding) {
        pair->post_write(*region, 0, *region, kBusyBytes, kBusyBytes);
      }
      pair->reap();
    }
  }
}

int attack_with_holes(Arguments arguments) {
  const Punched punched(number(arguments, 0, 1024) * kMebibyte);
  bench::BenchCard card;
  // A part is enough: writes wait until the whole hole has been punched.
  const auto region = card.register_range(punched.memory, kWrittenTo, false);
  std::atomic<double> longest_ms{0};  // of the WRITEs since the last hole
  std::thread([&] {
    for (;;) {
      punched.fill();
      const auto start = std::chrono::steady_clock::now();
      punched.punch();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      std::printf("punched in %.0f ms, the longest WRITE took %.0f ms\n", took.count(),
                  longest_ms.exchange(0));
      std::fflush(stdout);
    }
  }).detach();
  bench::BenchPair pair(card);
  say_attacking();
  for (std::uint64_t at = 0;; at = (at + kPunchedBytes) % kWrittenTo) {
    const double ms = pair.write_one(*region, *region, at, kPunchedBytes) / 1e6;
    longest_ms = std::max(longest_ms.load(), ms);
  }
}

}  // namespace uroce::hostile
