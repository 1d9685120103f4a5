#pragma once

// Runs a simulation over many seeds: PROGRAM [--seeds N] [--first-seed S] [--verbose]. Without
// --seeds, an environment variable sets how many; without --first-seed, UROCE_FIRST_SEED sets the
// first. Seeds that failed once are always run first. A failure prints its seed: `PROGRAM
// --first-seed S --seeds 1` repeats it exactly.

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

namespace uroce::sim {

struct Seeds {
  const char* variable;     // of the environment
  std::uint64_t otherwise;  // number of seeds if it isn't set
  std::span<const std::uint64_t> regressions;

  [[nodiscard]] std::uint64_t count() const { return number_of(variable, otherwise); }
  [[nodiscard]] static std::uint64_t first() { return number_of("UROCE_FIRST_SEED", 1); }

 private:
  static std::uint64_t number_of(const char* name, std::uint64_t without) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : without;
  }
};

// `run_seed`: std::string(std::uint64_t seed, bool verbose), returns the error. `report`: void(),
// prints a summary of the seeds. Returns the program's exit code.
template <typename RunSeed, typename Report>
int run_seeds(std::span<char*> arguments, const Seeds& seeds, RunSeed run_seed, Report report) {
  std::uint64_t count = seeds.count();
  std::uint64_t first = Seeds::first();
  bool verbose = false;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool more = i + 1 < arguments.size();
    if (std::strcmp(arguments[i], "--seeds") == 0 && more) {
      count = std::strtoull(arguments[++i], nullptr, 10);
    } else if (std::strcmp(arguments[i], "--first-seed") == 0 && more) {
      first = std::strtoull(arguments[++i], nullptr, 10);
    } else if (std::strcmp(arguments[i], "--verbose") == 0) {
      verbose = true;
    } else {
      std::fprintf(stderr, "usage: %s [--seeds N] [--first-seed S] [--verbose]\n", arguments[0]);
      return 2;
    }
  }
  std::uint64_t failed = 0;
  const auto run_one = [&](std::uint64_t seed) {
    const std::string wrong = run_seed(seed, verbose);
    if (!wrong.empty()) {
      std::printf("seed %" PRIu64 " FAILED: %s\n", seed, wrong.c_str());
      ++failed;
    }
  };
  for (const std::uint64_t seed : seeds.regressions) {
    run_one(seed);
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    run_one(seed);
  }
  std::printf("%" PRIu64 " seeds from %" PRIu64 " and %zu regressions: %" PRIu64 " failed\n", count,
              first, seeds.regressions.size(), failed);
  report();
  return failed == 0 ? 0 : 1;
}

}  // namespace uroce::sim
