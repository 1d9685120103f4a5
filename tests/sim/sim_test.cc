// Runs the simulation over many seeds: sim_test [--seeds N] [--first-seed S] [--verbose]. Without
// --seeds, UROCE_SIM_SEEDS says how many, or 300. Seeds that failed once are always run first. A
// failure prints its seed: `sim_test --first-seed S --seeds 1` repeats it exactly.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/world.h"

namespace uroce::sim {
namespace {

constexpr std::uint64_t kSeedsDefault = 300;

// 1655 found a receive that is held for a message whose sender has failed (the checker expected it
// to be untouched).
constexpr std::uint64_t kRegressions[] = {1655, 25'442};

bool run_seed(std::uint64_t seed, bool verbose, Outcome* sum) {
  World world(seed);
  const Outcome outcome = world.run();
  sum->frames += outcome.frames;
  sum->requests += outcome.requests;
  sum->broken += outcome.broken;
  if (!outcome.wrong.empty()) {
    std::printf("seed %llu FAILED: %s\n", static_cast<unsigned long long>(seed),
                outcome.wrong.c_str());
    return false;
  }
  if (verbose) {
    std::printf("seed %llu: %llu requests, %llu frames\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(outcome.requests),
                static_cast<unsigned long long>(outcome.frames));
  }
  return true;
}

int run(std::uint64_t first, std::uint64_t count, bool verbose) {
  Outcome sum;
  std::uint64_t failed = 0;
  for (const std::uint64_t seed : kRegressions) {
    failed += run_seed(seed, verbose, &sum) ? 0 : 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    failed += run_seed(seed, verbose, &sum) ? 0 : 1;
  }
  std::printf(
      "%llu seeds from %llu and %zu regressions: %llu failed; %llu requests, %llu frames, %llu "
      "flows broken by intention\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(first),
      std::size(kRegressions), static_cast<unsigned long long>(failed),
      static_cast<unsigned long long>(sum.requests), static_cast<unsigned long long>(sum.frames),
      static_cast<unsigned long long>(sum.broken));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace uroce::sim

int main(int argc, char** argv) {
  const char* wish = std::getenv("UROCE_SIM_SEEDS");
  std::uint64_t count =
      wish != nullptr ? std::strtoull(wish, nullptr, 10) : uroce::sim::kSeedsDefault;
  std::uint64_t first = 1;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
      count = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--first-seed") == 0 && i + 1 < argc) {
      first = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--verbose") == 0) {
      verbose = true;
    } else {
      std::fprintf(stderr, "usage: sim_test [--seeds N] [--first-seed S] [--verbose]\n");
      return 2;
    }
  }
  return uroce::sim::run(first, count, verbose);
}
