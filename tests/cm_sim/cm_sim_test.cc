// Runs the simulation of connections over many seeds: cm_sim_test [--seeds N] [--first-seed S]
// [--verbose]. Without --seeds, UROCE_CM_SIM_SEEDS says how many, or 300. Seeds that failed once
// are always run first. A failure prints its seed: `cm_sim_test --first-seed S --seeds 1` repeats
// it exactly.

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cm_sim/world.h"

namespace uroce::sim {
namespace {

constexpr std::uint64_t kSeedsDefault = 300;

// 107: a REP to a late copy of a REQ, by a peer that has restarted, wasn't answered. 4822
// disconnects a connection that the manager is ending already.
constexpr std::uint64_t kRegressions[] = {107, 4822};

bool run_seed(std::uint64_t seed, CmOutcome* sum) {
  CmWorld world(seed);
  const CmOutcome outcome = world.run();
  sum->hosts.asked += outcome.hosts.asked;
  sum->hosts.established += outcome.hosts.established;
  sum->hosts.by_data += outcome.hosts.by_data;
  sum->hosts.rejected += outcome.hosts.rejected;
  sum->hosts.unreachable += outcome.hosts.unreachable;
  sum->hosts.disconnected += outcome.hosts.disconnected;
  sum->hosts.timed_out += outcome.hosts.timed_out;
  sum->hosts.services += outcome.hosts.services;
  sum->hosts.crashes += outcome.hosts.crashes;
  sum->hosts.restarts += outcome.hosts.restarts;
  sum->link.sent += outcome.link.sent;
  sum->link.lost += outcome.link.lost;
  sum->link.repeated += outcome.link.repeated;
  sum->link.late += outcome.link.late;
  sum->repeated += outcome.repeated;
  sum->stale += outcome.stale;
  sum->agreed += outcome.agreed;
  if (!outcome.wrong.empty()) {
    std::printf("seed %" PRIu64 " FAILED: %s\n", seed, outcome.wrong.c_str());
  }
  return outcome.wrong.empty();
}

int run(std::uint64_t first, std::uint64_t count, bool verbose) {
  CmOutcome sum;
  std::uint64_t failed = 0;
  for (const std::uint64_t seed : kRegressions) {
    failed += run_seed(seed, &sum) ? 0 : 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    if (verbose) {
      std::printf("seed %" PRIu64 "\n", seed);
    }
    failed += run_seed(seed, &sum) ? 0 : 1;
  }
  std::printf("%" PRIu64 " seeds from %" PRIu64 " and %zu regressions: %" PRIu64 " failed\n", count,
              first, std::size(kRegressions), failed);
  std::printf("  %" PRIu64 " requests: %" PRIu64 " ends established (%" PRIu64 " by data), %" PRIu64
              " rejected, %" PRIu64 " unreachable, %" PRIu64 " services found\n",
              sum.hosts.asked, sum.hosts.established, sum.hosts.by_data, sum.hosts.rejected,
              sum.hosts.unreachable, sum.hosts.services);
  std::printf("  %" PRIu64 " disconnected, %" PRIu64 " of a silent peer, %" PRIu64
              " stale; %" PRIu64 " programs and %" PRIu64 " daemons died; %" PRIu64
              " ends agreed in the calm\n",
              sum.hosts.disconnected, sum.hosts.timed_out, sum.stale, sum.hosts.crashes,
              sum.hosts.restarts, sum.agreed);
  std::printf("  %" PRIu64 " messages: %" PRIu64 " lost, %" PRIu64 " doubled, %" PRIu64
              " late; %" PRIu64 " sent again\n",
              sum.link.sent, sum.link.lost, sum.link.repeated, sum.link.late, sum.repeated);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace uroce::sim

int main(int argc, char** argv) {
  const char* wish = std::getenv("UROCE_CM_SIM_SEEDS");
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
      std::fprintf(stderr, "usage: cm_sim_test [--seeds N] [--first-seed S] [--verbose]\n");
      return 2;
    }
  }
  return uroce::sim::run(first, count, verbose);
}
