// What ringing a doorbell costs a program's thread, alone and beside another one that rings for a
// queue pair of its own, while no worker takes what rang: nanoseconds of one ring.

#include <benchmark/benchmark.h>

#include "abi/doorbell.h"

namespace uroce {
namespace {

// Of queue pairs in words, and cache lines, of their own.
constexpr std::uint32_t kSlotsApart = 2'048;

void ring(benchmark::State& state) {
  static abi::Doorbells bells;
  const std::uint32_t slot = kSlotsApart * static_cast<std::uint32_t>(state.thread_index());
  for (auto _ : state) {
    abi::ring(bells, slot);
  }
}
BENCHMARK(ring)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace uroce

BENCHMARK_MAIN();
