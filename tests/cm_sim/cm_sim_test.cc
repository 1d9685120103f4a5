// The simulation of connections over many seeds (tests/sim/seeds.h). UROCE_CM_SIM_SEEDS sets how
// many.

#include <cinttypes>
#include <cstdio>

#include "tests/cm_sim/world.h"
#include "tests/sim/seeds.h"

namespace uroce::sim {
namespace {

constexpr std::uint64_t kSeedsDefault = 5'000;

// 107: the REP to a late copy of a REQ, sent by a peer that had restarted, wasn't answered. 4822
// disconnects a connection that the manager is already ending.
constexpr std::uint64_t kRegressions[] = {107, 4822};

std::string run_seed(std::uint64_t seed, bool verbose, CmOutcome* sum) {
  if (verbose) {
    std::printf("seed %" PRIu64 "\n", seed);
  }
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
  return outcome.wrong;
}

void report(const CmOutcome& sum) {
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
}

}  // namespace
}  // namespace uroce::sim

int main(int argc, char** argv) {
  using namespace uroce::sim;
  CmOutcome sum;
  return run_seeds(
      {argv, static_cast<std::size_t>(argc)}, {"UROCE_CM_SIM_SEEDS", kSeedsDefault, kRegressions},
      [&](std::uint64_t seed, bool verbose) { return run_seed(seed, verbose, &sum); },
      [&] { report(sum); });
}
