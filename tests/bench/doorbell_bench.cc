// What ringing a doorbell costs a program's thread, alone and beside another thread that rings for
// its own queue pair, while no worker takes the doorbells. The argument: how many slots the two
// queue pairs are apart; fewer than 512 share a cache line. "CPU" is the nanoseconds per ring.

#include <benchmark/benchmark.h>

#include "abi/doorbell.h"

namespace uroce {
namespace {

void ring(benchmark::State& state) {
  static abi::Doorbells bells;
  // Not among the first, which share a line with what every ring reads.
  const std::uint32_t slot = 8 * abi::kDoorbellSlotsOfFirstLine +
                             static_cast<std::uint32_t>(state.range(0) * state.thread_index());
  for (auto _ : state) {
    abi::ring(bells, slot);
  }
}
BENCHMARK(ring)->Arg(2'048)->Arg(1)->Threads(1)->Threads(2);

}  // namespace
}  // namespace uroce

BENCHMARK_MAIN();
